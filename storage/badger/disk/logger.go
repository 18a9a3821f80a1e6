// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"fmt"
	"strings"

	"go.uber.org/zap"
)

// logger passes on the log of Badger. Its level info is of interest to its developers only and becomes debug.
type logger struct {
	to *zap.SugaredLogger
	// failed is called for a failure after which Badger tries to go on by itself.
	failed func(error)
}

// retried is the beginning of what Badger logs when it could not write a table or MANIFEST, and tries again with
// another table. That cannot succeed: Badger has removed the table, which may be listed in MANIFEST, and after a
// failed sync the next one does not tell.
const retried = "error flushing memtable"

func (l logger) Errorf(format string, args ...any) {
	l.to.Errorf(strings.TrimSpace(format), args...)
	if strings.HasPrefix(format, retried) {
		l.failed(fmt.Errorf("writing a table: "+strings.TrimSpace(format), args...))
	}
}

func (l logger) Warningf(format string, args ...any) { l.to.Warnf(strings.TrimSpace(format), args...) }
func (l logger) Infof(format string, args ...any)    { l.to.Debugf(strings.TrimSpace(format), args...) }

// Debugf logs nothing: it is called several times for each commit.
func (l logger) Debugf(string, ...any) {}
