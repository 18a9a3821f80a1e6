// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"fmt"
	"strings"

	"go.uber.org/zap"
)

// logger passes on what Badger says. What it calls information is of interest to its developers only.
type logger struct {
	to *zap.SugaredLogger
	// failed is told of a failure that Badger tries to get over by itself.
	failed func(error)
}

// retried is the beginning of what Badger says when it could not write a table or MANIFEST, and tries again with another table.
// It cannot get over that: it has removed the table, which may stand in MANIFEST, and after a sync that failed the next one
// says nothing.
const retried = "error flushing memtable"

func (l logger) Errorf(format string, args ...any) {
	l.to.Errorf(strings.TrimSpace(format), args...)
	if strings.HasPrefix(format, retried) {
		l.failed(fmt.Errorf("writing a table: "+strings.TrimSpace(format), args...))
	}
}

func (l logger) Warningf(format string, args ...any) { l.to.Warnf(strings.TrimSpace(format), args...) }
func (l logger) Infof(format string, args ...any)    { l.to.Debugf(strings.TrimSpace(format), args...) }

// Debugf says nothing: it is called several times for each commit.
func (l logger) Debugf(string, ...any) {}
