// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package sampled keeps the log readable when a client or a failing store could write a line with every request.
package sampled

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Interval is the time in which one line of a kind is written.
const Interval = time.Second

// LeftOut is the name of the field that says how many lines of the same kind were left out before a line.
const LeftOut = "left_out"

// Logger returns a logger that writes at most one warning or error of a kind in each [Interval], and says with the next one how
// many were left out. Lines are of one kind when they have the same message. When no further line comes, one without fields of
// its own tells the number. Lines of lower levels are records, such as verdicts, and are all written.
func Logger(logger *zap.Logger) *zap.Logger {
	kinds := new(sync.Map)
	return logger.WithOptions(zap.WrapCore(func(inner zapcore.Core) zapcore.Core { return &core{inner, kinds} }))
}

// core leaves out lines of the core that it wraps.
type core struct {
	zapcore.Core
	kinds *sync.Map // of *kind by its message
}

// kind is what is known of lines with one message.
type kind struct {
	mu      sync.Mutex
	until   time.Time // no line is written before
	leftOut int
	waiting bool // for the moment at which the number of lines left out is written
}

// With implements [zapcore.Core].
func (c *core) With(fields []zapcore.Field) zapcore.Core { return &core{c.Core.With(fields), c.kinds} }

// Check implements [zapcore.Core].
func (c *core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if entry.Level < zapcore.WarnLevel || !c.Enabled(entry.Level) {
		return c.Core.Check(entry, checked)
	}
	found, ok := c.kinds.Load(entry.Message)
	if !ok {
		found, _ = c.kinds.LoadOrStore(entry.Message, new(kind))
	}
	write, leftOut := found.(*kind).ask(entry.Time, func(n int) { c.tell(entry, n) })
	switch {
	case !write:
		return checked
	case leftOut > 0:
		return c.counting(leftOut).Check(entry, checked)
	}
	return c.Core.Check(entry, checked)
}

// ask reports whether a line is written, and how many were left out before it. tell is called later if it is the last one for a
// while that is left out.
func (k *kind) ask(now time.Time, tell func(leftOut int)) (write bool, leftOut int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !now.Before(k.until) {
		leftOut, k.leftOut = k.leftOut, 0
		k.until = now.Add(Interval)
		return true, leftOut
	}
	k.leftOut++
	if !k.waiting {
		k.waiting = true
		time.AfterFunc(2*Interval, func() { k.end(tell) })
	}
	return false, 0
}

// end tells what was left out and will not be told otherwise.
func (k *kind) end(tell func(leftOut int)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting = false
	if k.leftOut == 0 {
		return
	}
	now := time.Now()
	if now.Before(k.until) { // lines still come: the next one tells
		k.waiting = true
		time.AfterFunc(2*Interval, func() { k.end(tell) })
		return
	}
	tell(k.leftOut)
	k.leftOut, k.until = 0, now.Add(Interval)
}

// tell writes a line that stands for others.
func (c *core) tell(like zapcore.Entry, leftOut int) {
	like.Time, like.Message = time.Now(), like.Message+" (more of the same)"
	if checked := c.counting(leftOut).Check(like, nil); checked != nil {
		checked.Write()
	}
}

// counting is the core that writes lines with the number of those that were left out.
func (c *core) counting(leftOut int) zapcore.Core {
	return c.Core.With([]zapcore.Field{zap.Int(LeftOut, leftOut)})
}

// Interface guard
var _ zapcore.Core = (*core)(nil)
