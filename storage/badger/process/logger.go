// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// line is a line of the log on its way from the process to the server.
type line struct {
	Level   int8
	Message string
	Fields  [][2]string
}

// core is a [zapcore.Core] that sends lines to the server.
type core struct {
	zapcore.LevelEnabler
	to   *sender
	with []zapcore.Field
}

// newLogger returns a logger whose lines the server logs.
func newLogger(to *sender, level zapcore.Level) *zap.Logger {
	return zap.New(&core{LevelEnabler: level, to: to})
}

func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{LevelEnabler: c.LevelEnabler, to: c.to, with: slices.Concat(c.with, fields)}
}

func (c *core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	l := line{Level: int8(e.Level), Message: e.Message}
	for _, f := range slices.Concat(c.with, fields) {
		// One at a time, to keep their order.
		values := zapcore.NewMapObjectEncoder()
		f.AddTo(values)
		for k, v := range values.Fields {
			l.Fields = append(l.Fields, [2]string{k, fmt.Sprint(v)})
		}
	}
	raw, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if err := c.to.send(&message{kind: kindLog, raw: raw}); err != nil || e.Level <= zapcore.ErrorLevel {
		return err
	}
	// The process ends when this returns: the line must have been sent.
	return c.Sync()
}

// Sync waits up to 0.1 s until every line has been sent.
func (c *core) Sync() error {
	for range 100 {
		if c.to.idle() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// log logs a line in the server.
func (l line) log(to *zap.Logger) {
	// A level above error would end the server.
	level := min(max(zapcore.Level(l.Level), zapcore.DebugLevel), zapcore.ErrorLevel)
	entry := to.Check(level, l.Message)
	if entry == nil {
		return
	}
	fields := make([]zapcore.Field, 0, len(l.Fields))
	for _, f := range l.Fields {
		fields = append(fields, zap.String(f[0], f[1]))
	}
	entry.Write(fields...)
}
