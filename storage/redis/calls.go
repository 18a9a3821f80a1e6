// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-moderation/caddy-moderation/storage"
)

// Everything that changes counts is a call with an id of its own. The server notes the id together with the change, so
// that a call whose answer was lost can be made again, and undone: see the scripts. The server forgets an id when it is
// told that the answer has arrived, which the next call of the account does, else the flush; or after a day, so that a
// node that is cut off for long counts nothing twice.

const (
	// firstPause is the pause before a call is made again, which doubles each time.
	firstPause = time.Millisecond
	lastPause  = 50 * time.Millisecond
	// forgetAtOnce is how many ids a call takes along to be forgotten.
	forgetAtOnce = 32
	// forgetAfter is after what time ids are forgotten that no call took along.
	forgetAfter = 10 * time.Second
)

// callIDs makes ids of calls: unique, because a node's part of them is random.
type callIDs struct {
	node [8]byte
	last atomic.Uint64
}

func newCallIDs() *callIDs {
	ids := new(callIDs)
	_, _ = rand.Read(ids.node[:]) // never fails
	return ids
}

// next returns an id.
func (c *callIDs) next() string {
	var b [8 + binary.MaxVarintLen64]byte
	copy(b[:], c.node[:])
	n := binary.PutUvarint(b[8:], c.last.Add(1))
	return string(b[:8+n])
}

// answer is what a script answers.
type answer struct {
	code                byte
	minute, day, period int64
	server              time.Time
	// leased is how many requests were charged beyond those of the call.
	leased int64
	// sent says that the call was made at least once, and again that it was made before without an answer, so that it
	// may still be on its way.
	sent, again bool
}

// errAnswer says that a script answered something else than it can.
var errAnswer = fmt.Errorf("%w: the database answered something unexpected", storage.ErrUnavailable)

// parseAnswer reads "<code> <minute> <day> <period> <seconds> <microseconds> <leased>".
func parseAnswer(text string) (a answer, err error) {
	if len(text) < 2 {
		return a, errAnswer
	}
	a.code = text[0]
	numbers := [6]int64{}
	rest := text[2:]
	for i := range numbers {
		word, after, _ := strings.Cut(rest, " ")
		if numbers[i], err = strconv.ParseInt(word, 10, 64); err != nil {
			return a, errAnswer
		}
		rest = after
	}
	a.minute, a.day, a.period = numbers[0], numbers[1], numbers[2]
	a.server = time.Unix(numbers[3], numbers[4]*1000)
	a.leased = numbers[5]
	return a, nil
}

// arguments are pooled: each call needs some for a short time.
var arguments = sync.Pool{New: func() any { return new([]string) }}

// putArguments gives arguments back after a call. After an error the call may not have ended yet.
func putArguments(args *[]string, err error) {
	if err == nil {
		arguments.Put(args)
	}
}

// eval makes a call, again and again while there is time: its answer may be lost, or the server may not be able to
// answer for a moment. After an error nobody knows whether the call was made, unless it was not sent.
func (c *counters) eval(t *tally, script *rueidis.Lua, args []string) (a answer, err error) {
	ctx, cancel := c.link.begin(context.Background())
	defer cancel()
	return c.evalIn(ctx, t, script, args, c.link.eval)
}

type evaluate func(ctx context.Context, script *rueidis.Lua, keys, args []string) (rueidis.RedisMessage, error)

func (c *counters) evalIn(
	ctx context.Context, t *tally, script *rueidis.Lua, args []string, eval evaluate,
) (a answer, err error) {
	pause := firstPause
	for {
		sent := monotonic()
		var m rueidis.RedisMessage
		m, err = eval(ctx, script, t.keys, args)
		c.reportAt(t, err)
		if err == nil {
			var text string
			if text, err = m.ToString(); err != nil {
				return a, errAnswer
			}
			unanswered := a.again
			a, err = parseAnswer(text)
			a.sent, a.again = true, unanswered
			if err == nil {
				c.link.clock.observe(sent, monotonic(), a.server, time.Microsecond)
			}
			return a, err
		}
		if errors.Is(err, storage.ErrDamaged) {
			return a, fmt.Errorf("account %s: %w", t.account, err)
		}
		unsent := errors.As(err, new(notSent))
		a.sent = a.sent || !unsent
		a.again = a.again || !unsent && !errors.Is(err, errMoving)
		if unsent && !a.sent {
			return a, err
		}
		if !hasTime(ctx, pause) {
			return a, err
		}
		pause = min(2*pause, lastPause)
	}
}

// reportAt tells the breaker how a call ended.
func (c *counters) reportAt(t *tally, err error) {
	if err != nil &&
		(errors.Is(err, errMoving) || errors.Is(err, storage.ErrDamaged) || errors.As(err, new(notSent))) {
		return
	}
	c.circuit.reportCall(t.part, err)
}

// hasTime waits, and reports whether there is time left.
func hasTime(ctx context.Context, pause time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= pause {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// forget lets the server forget the answered calls of some accounts, all at once: one after the other would take a
// round trip each. It reports whether the server was told. It forgets them by itself, only later.
func (c *counters) forget(due []*tally) bool {
	b, err := c.link.b()
	if err != nil {
		return false
	}
	var cmds []rueidis.Completed
	for _, t := range due {
		t.mu.Lock()
		ids := t.answered
		t.answered = nil
		t.mu.Unlock()
		if len(ids) > 0 {
			cmds = append(cmds, b.Hdel().Key(t.calls).Field(ids...).Build())
		}
	}
	ctx, cancel := c.link.begin(context.Background())
	defer cancel()
	_, err = c.link.many(ctx, cmds...)
	return err == nil
}
