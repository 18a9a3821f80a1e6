// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// processLogger returns a logger for what outlives a configuration. It writes to the log of the configuration that
// runs at the moment of writing: the one that ran when the logger was made may have closed its log file.
func processLogger(name string) *zap.Logger {
	return zap.New(processCore{}).Named(name)
}

// processCore hands every entry to Caddy's current default log.
type processCore struct{ fields []zapcore.Field }

// Enabled reports whether the current log takes entries of the level.
func (processCore) Enabled(level zapcore.Level) bool { return caddy.Log().Core().Enabled(level) }

// With returns a core that adds fields to every entry.
func (c processCore) With(fields []zapcore.Field) zapcore.Core {
	return processCore{append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

// Check adds the core to the entry when the current log takes it.
func (c processCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write writes the entry to the current log.
func (c processCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	all := append(c.fields[:len(c.fields):len(c.fields)], fields...)
	if checked := caddy.Log().Core().Check(entry, nil); checked != nil {
		checked.Write(all...)
	}
	return nil
}

// Sync flushes the current log.
func (processCore) Sync() error { return caddy.Log().Core().Sync() }

// Interface guard
var _ zapcore.Core = processCore{}
