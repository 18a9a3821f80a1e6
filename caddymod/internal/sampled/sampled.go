// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package sampled keeps the log readable when a client or a failing store could cause a line with every request.
package sampled

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Interval is the time in which one line with the same message is written.
const Interval = time.Second

// LeftOut is the name of the field that says how many lines with the same message were left out before a line.
const LeftOut = "left_out"

// Logger returns a logger that writes at most one warning or error with the same message in each [Interval]. The next
// one says how many were left out. When no further line comes, a line without other fields says it. Lines of lower
// levels are records, such as verdicts, and are all written.
func Logger(logger *zap.Logger) *zap.Logger {
	messages := new(sync.Map)
	return logger.WithOptions(zap.WrapCore(func(inner zapcore.Core) zapcore.Core { return &core{inner, messages} }))
}

// core leaves out lines of the core that it wraps.
type core struct {
	zapcore.Core
	messages *sync.Map // *sampler by message
}

// sampler chooses the lines with one message that are written.
type sampler struct {
	mu      sync.Mutex
	until   time.Time // no line is written before
	leftOut int
	waiting bool // a timer will report the lines that were left out
}

// With implements [zapcore.Core].
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{c.Core.With(fields), c.messages}
}

// Check implements [zapcore.Core].
func (c *core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if entry.Level < zapcore.WarnLevel || !c.Enabled(entry.Level) {
		return c.Core.Check(entry, checked)
	}
	found, ok := c.messages.Load(entry.Message)
	if !ok {
		found, _ = c.messages.LoadOrStore(entry.Message, new(sampler))
	}
	write, leftOut := found.(*sampler).sample(entry.Time, func(n int) { c.report(entry, n) })
	switch {
	case !write:
		return checked
	case leftOut > 0:
		return c.counting(leftOut).Check(entry, checked)
	}
	return c.Core.Check(entry, checked)
}

// sample reports whether a line is written, and how many were left out before it. report is called later for lines
// that no further line reports.
func (s *sampler) sample(now time.Time, report func(leftOut int)) (write bool, leftOut int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !now.Before(s.until) {
		leftOut, s.leftOut = s.leftOut, 0
		s.until = now.Add(Interval)
		return true, leftOut
	}
	s.leftOut++
	if !s.waiting {
		s.waiting = true
		time.AfterFunc(2*Interval, func() { s.end(report) })
	}
	return false, 0
}

// end reports the lines that were left out and that no further line has reported.
func (s *sampler) end(report func(leftOut int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = false
	if s.leftOut == 0 {
		return
	}
	now := time.Now()
	if now.Before(s.until) { // lines still come: the next one reports
		s.waiting = true
		time.AfterFunc(2*Interval, func() { s.end(report) })
		return
	}
	report(s.leftOut)
	s.leftOut, s.until = 0, now.Add(Interval)
}

// report writes a line that stands for those that were left out.
func (c *core) report(like zapcore.Entry, leftOut int) {
	like.Time, like.Message = time.Now(), like.Message+" (more of the same)"
	if checked := c.counting(leftOut).Check(like, nil); checked != nil {
		checked.Write()
	}
}

// counting returns a core that adds the number of lines that were left out.
func (c *core) counting(leftOut int) zapcore.Core {
	return c.Core.With([]zapcore.Field{zap.Int(LeftOut, leftOut)})
}

// Interface guard
var _ zapcore.Core = (*core)(nil)
