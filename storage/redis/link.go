// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-moderation/caddy-moderation/storage"
)

// link is the way to the database: it bounds each command in time and maps errors.
type link struct {
	options Options
	client  atomic.Pointer[client]
	breaker breaker
	// clock is fed by the answers that tell the server's time.
	clock serverClock

	// unanswered is how many commands are under way, and dialing how many connections are being made. Slow is the
	// time, in Unix nanoseconds, until which commands may be under way that nobody waits for. See [bounded].
	unanswered atomic.Int64
	dialing    atomic.Int64
	slow       atomic.Int64

	closeOnce sync.Once
	closed    atomic.Bool
}

// client is a connected client. Once there is one, it stays: it makes its connections again by itself.
type client struct {
	rueidis.Client
	// tracks says that the server tells which records of the client's cache have changed.
	tracks bool
}

// breaker decides whether the database is asked at all.
type breaker interface {
	// allow returns an error that wraps storage.ErrUnavailable when it is not to be asked now.
	allow() error
	// report tells how a command ended: nil if it was answered, else an error that wraps storage.ErrUnavailable.
	report(err error)
	// allowAt and reportAt are the same for a part of the slots of a cluster. ReportAt follows report.
	allowAt(part int) error
	reportAt(part int, err error)
}

func newLink(o Options) *link { return &link{options: o} }

// errNotConnected says that the first connection is not made yet.
var errNotConnected = fmt.Errorf("%w: the database was not reached yet", storage.ErrUnavailable)

// errTimeout says that the time of a call is over.
var errTimeout = errors.New("the database did not answer in time")

// notSent is an error because of which nothing was sent to the database.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// connected returns the client.
func (l *link) connected() (*client, error) {
	if l.closed.Load() {
		return nil, notSent{errClosed}
	}
	if c := l.client.Load(); c != nil {
		return c, nil
	}
	return nil, notSent{errNotConnected}
}

// b returns what builds commands for [link.do].
func (l *link) b() (rueidis.Builder, error) {
	c, err := l.connected()
	if err != nil {
		return rueidis.Builder{}, err
	}
	return c.B(), nil
}

// begin bounds a whole call: its commands and their retries.
func (l *link) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, l.options.Timeout, errTimeout)
}

// change is [link.begin] for a call that changes something: what has begun is not broken off because the caller leaves,
// and there is time to wait for replicas.
func (l *link) change(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := l.options.Timeout
	if l.options.Replicas > 0 {
		limit += l.options.ReplicaTimeout
	}
	return context.WithTimeoutCause(context.WithoutCancel(ctx), limit, errTimeout)
}

// unbroken is the key of a value in contexts of calls for which the breaker is not asked.
type unbroken struct{}

// allowed returns the client if the database is to be asked, and the part of a slot.
func (l *link) allowed(ctx context.Context, slot uint16) (c *client, part int, err error) {
	c, err = l.connected()
	if err != nil {
		return nil, -1, err
	}
	if l.options.before != nil {
		l.options.before()
	}
	part = -1
	if l.options.Topology == Cluster && slot < clusterSlots {
		part = int(slot) * clusterParts / clusterSlots
		err = l.breaker.allowAt(part)
	} else {
		err = l.breaker.allow()
	}
	if err != nil && ctx.Value(unbroken{}) == nil {
		return nil, -1, notSent{err}
	}
	return c, part, nil
}

// do sends a command and returns the answer, which may be nil. It returns an error that wraps storage.ErrUnavailable
// when there is none, and that of ctx when ctx is done otherwise than by time. The context is that of begin or change.
// Commands that only read are sent again while there is time.
func (l *link) do(ctx context.Context, cmd rueidis.Completed) (rueidis.RedisMessage, error) {
	c, part, err := l.allowed(ctx, cmd.Slot())
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	// The client sends a command again whose connection broke, and recycles it once it is answered, while what is left
	// of the first connection may still read it. One that is pinned is not recycled.
	cmd = cmd.Pin()
	return l.one(ctx, part, func() rueidis.RedisResult { return c.Do(ctx, cmd) }, nil)
}

// cached is [link.do] for a command whose answer the client keeps for up to ttl, unless the server says that it has
// changed.
func (l *link) cached(ctx context.Context, cmd rueidis.Cacheable, ttl time.Duration) (rueidis.RedisMessage, error) {
	c, part, err := l.allowed(ctx, cmd.Slot())
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	cmd = cmd.Pin() // as in do
	return l.one(ctx, part, func() rueidis.RedisResult { return c.DoCache(ctx, cmd.ToStaticTTL(), ttl) }, nil)
}

// anySlot is what commands have for a slot that have no key.
const anySlot = clusterSlots

// slotOf returns the slot of the keys of a script, all of which are in one.
func (l *link) slotOf(keys []string) uint16 {
	if l.options.Topology != Cluster || len(keys) == 0 {
		return anySlot
	}
	return uint16(slotOfName(keys[0]))
}

// eval is [link.do] for a script. One that is repeatable is sent again while there is time.
func (l *link) eval(ctx context.Context, script *rueidis.Lua, keys, args []string) (rueidis.RedisMessage, error) {
	c, part, err := l.allowed(ctx, l.slotOf(keys))
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	run := func() rueidis.RedisResult { return script.Exec(ctx, c, keys, args) }
	if repeatable[script] {
		once := run
		run = func() rueidis.RedisResult { return repeat(ctx, once) }
	}
	return l.one(ctx, part, run, func() { args = slices.Clone(args) })
}

// repeat runs a command until a server answers it or there is no time left.
func repeat(ctx context.Context, run func() rueidis.RedisResult) rueidis.RedisResult {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		result := run()
		if result.NonRedisError() == nil || !hasTime(ctx, pause) {
			return result
		}
	}
}

// one waits for the answer to a command, and takes note of how it ended.
func (l *link) one(
	ctx context.Context, part int, run func() rueidis.RedisResult, detach func(),
) (rueidis.RedisMessage, error) {
	began := time.Now()
	result, err := bounded(ctx, l, run, detach)
	if err != nil {
		return rueidis.RedisMessage{}, l.failed(ctx, part, err)
	}
	m, err := result.ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		return rueidis.RedisMessage{}, l.failed(ctx, part, err)
	}
	if l.options.Observe != nil && !m.IsCacheHit() {
		l.options.Observe(time.Since(began))
	}
	l.answered(part)
	return m, nil
}

// many is [link.do] for several commands, sent at once. An error is that of one of them.
func (l *link) many(ctx context.Context, cmds ...rueidis.Completed) ([]rueidis.RedisMessage, error) {
	if len(cmds) == 0 {
		return nil, nil
	}
	c, part, err := l.allowed(ctx, anySlot)
	if err != nil {
		return nil, err
	}
	answers, err := l.ask(ctx, c, cmds)
	if err != nil {
		return nil, l.failed(ctx, part, err)
	}
	l.answered(part)
	return answers, nil
}

// ask sends commands whether the breaker lets it or not, and does not tell it how they ended. An error is that of one
// of them, as the client returns it.
func (l *link) ask(ctx context.Context, c *client, cmds []rueidis.Completed) ([]rueidis.RedisMessage, error) {
	for i := range cmds {
		cmds[i] = cmds[i].Pin() // as in do
	}
	results, err := bounded(ctx, l, func() []rueidis.RedisResult { return c.DoMulti(ctx, cmds...) }, nil)
	answers := make([]rueidis.RedisMessage, len(results))
	for i, result := range results {
		m, one := result.ToMessage()
		if one != nil && !rueidis.IsRedisNil(one) && err == nil {
			err = one
		}
		answers[i] = m
	}
	return answers, err
}

// answered takes note that a command was answered.
func (l *link) answered(part int) {
	l.breaker.report(nil)
	if part >= 0 {
		l.breaker.reportAt(part, nil)
	}
}

// asked is eval whether the breaker lets it or not: the store itself tries whether the server is back.
func (l *link) asked(ctx context.Context, script *rueidis.Lua, keys, args []string) (rueidis.RedisMessage, error) {
	c, err := l.connected()
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	result, err := bounded(ctx, l, func() rueidis.RedisResult { return script.Exec(ctx, c, keys, args) },
		func() { args = slices.Clone(args) })
	if err != nil {
		return rueidis.RedisMessage{}, mapError(err)
	}
	m, err := result.ToMessage()
	if err != nil && isDamage(err) {
		return m, errDamagedRecord
	}
	if err != nil && !rueidis.IsRedisNil(err) {
		return m, mapError(err)
	}
	return m, nil
}

// The sizes of the client's queues. A queue that is full blocks whoever puts something into it, whatever its context
// says; see [bounded].
const (
	ringScale  = 10
	crowd      = 1 << ringScale / 2
	readBuffer = 64 << 10
)

// writeTimeout is after what time a connection that does not answer is given up.
func (o *Options) writeTimeout() time.Duration { return max(time.Second, 2*o.Timeout) }

// bounded runs a command and returns when it is answered or ctx is done. The client heeds the context, except while it
// puts a command into a queue that is full, or waits for a connection that another goroutine makes. Both are rare, so
// the command has a goroutine of its own only when they are possible. That goroutine may still run when bounded has
// returned. Detach, which may be nil, is called before it begins: it copies what the caller may change then.
func bounded[R any](ctx context.Context, l *link, run func() R, detach func()) (result R, err error) {
	n := l.unanswered.Add(1)
	if n < crowd && l.dialing.Load() == 0 && time.Now().UnixNano() >= l.slow.Load() {
		result = run()
		l.unanswered.Add(-1)
		if ctx.Err() != nil {
			l.abandon()
		}
		return result, nil
	}
	if detach != nil {
		detach()
	}
	done := make(chan R, 1)
	go func() {
		r := run()
		l.unanswered.Add(-1)
		done <- r
	}()
	select {
	case result = <-done:
		if ctx.Err() != nil {
			l.abandon()
		}
		return result, nil
	case <-ctx.Done():
		l.abandon()
		return result, ctx.Err()
	}
}

// abandon notes that a command may be in a queue until its connection is given up.
func (l *link) abandon() {
	// The connection is asked for a sign of life each second.
	l.slow.Store(time.Now().Add(time.Second + l.options.writeTimeout()).UnixNano())
}

// failed maps the error of a command and takes note of it.
func (l *link) failed(ctx context.Context, part int, err error) error {
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTimeout) {
		return ctx.Err()
	}
	if isDamage(err) {
		l.answered(part)
		return errDamagedRecord
	}
	if !errors.Is(err, storage.ErrUnavailable) {
		err = mapError(err)
	}
	if errors.Is(err, errMoving) {
		return err
	}
	l.breaker.report(err)
	if part >= 0 {
		l.breaker.reportAt(part, err)
	}
	return err
}

// errDamagedRecord says that a record is not of the type or the form that was written.
var errDamagedRecord = fmt.Errorf("a record in the database: %w", storage.ErrDamaged)

// errMoving says that some records of an account are on their way to another master. It is no failure of the server:
// whoever waits a little finds them together again.
var errMoving = fmt.Errorf("%w: the cluster is moving the records (TRYAGAIN)", storage.ErrUnavailable)

// isDamage reports whether the server refused a command because of what a record is.
func isDamage(err error) bool {
	refused, ok := rueidis.IsRedisErr(err)
	return ok && (strings.HasPrefix(refused.Error(), "WRONGTYPE ") ||
		strings.HasPrefix(refused.Error(), "ERR hash value is not an integer"))
}

// mapError says what an error of the client is, without names of records.
func mapError(err error) error {
	if refused, ok := rueidis.IsRedisErr(err); ok {
		if refused.IsTryAgain() {
			return errMoving
		}
		return fmt.Errorf("%w: %s", storage.ErrUnavailable, explain(refused.Error()))
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: %w", storage.ErrUnavailable, errTimeout)
	}
	if errors.Is(err, rueidis.ErrClosing) {
		return fmt.Errorf("%w: there is no connection to the database", storage.ErrUnavailable)
	}
	return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
}

// explanations are sentences for what a server answers instead of doing its work, by the first word.
var explanations = map[string]string{
	"OOM":         "the server has no memory left (OOM)",
	"READONLY":    "the server is a read-only replica (READONLY)",
	"LOADING":     "the server is loading its data (LOADING)",
	"MASTERDOWN":  "the server is a replica without its master (MASTERDOWN)",
	"CLUSTERDOWN": "the cluster is down (CLUSTERDOWN)",
	"MISCONF":     "the server cannot write to its disk (MISCONF)",
	"NOREPLICAS":  "the server has too few replicas to write (NOREPLICAS)",
	"BUSY":        "the server is busy with a script (BUSY)",
	"NOPERM":      "the user has not the permissions that are needed (NOPERM)",
	"NOAUTH":      "the server asks for a password (NOAUTH)",
	"WRONGPASS":   "the user name or the password is wrong (WRONGPASS)",
	"WRONGTYPE":   "a record is of another type (WRONGTYPE)",
}

// explain makes a sentence of what the server answered. What it answers may hold names of records.
func explain(answer string) string {
	word, _, _ := strings.Cut(strings.TrimPrefix(answer, "ERR "), " ")
	if sentence, ok := explanations[word]; ok {
		return sentence
	}
	if strings.Contains(answer, "The user executing the script") {
		return explanations["NOPERM"]
	}
	if word == strings.ToUpper(word) && len(word) > 2 {
		return "the server refused a command (" + word + ")"
	}
	return "the server refused a command"
}

// close closes the connections.
func (l *link) close() {
	l.closeOnce.Do(func() {
		l.closed.Store(true)
		if c := l.client.Load(); c != nil {
			c.Close()
		}
	})
}
