// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"strings"

	"go.uber.org/zap"
)

// logger passes on what Badger says. What it calls information is of interest to its developers only.
type logger struct{ to *zap.SugaredLogger }

func (l logger) Errorf(format string, args ...any)   { l.to.Errorf(strings.TrimSpace(format), args...) }
func (l logger) Warningf(format string, args ...any) { l.to.Warnf(strings.TrimSpace(format), args...) }
func (l logger) Infof(format string, args ...any)    { l.to.Debugf(strings.TrimSpace(format), args...) }

// Debugf says nothing: it is called several times for each commit.
func (l logger) Debugf(string, ...any) {}
