// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-moderation/caddy-moderation/storage/contents"
)

// Target is a prefix that is being filled.
type Target struct {
	*bulk
	// identity and value are the mark of the unfinished store.
	identity identity
	value    string

	cmds []rueidis.Completed
	size int
	// sequence is the number of the last record in the stream of each day.
	sequence map[int64]int64
	// collections are those that are noted.
	collections map[string]bool
}

const (
	// maxCommands and maxBytes are how much is sent at once.
	maxCommands, maxBytes = 2000, 1 << 20
	// maxFields is how many fields of a hash one command writes.
	maxFields = 500
	// nodeAlive is for how long after its last sign of life a node is taken for running.
	nodeAlive = 15 * time.Second
)

// NewTarget begins to fill the prefix of the options. There must be no names with it, or only those of a store that
// keeps nothing and that no node uses, or what an unfinished filling has left: that is deleted. Otherwise the error
// wraps [contents.ErrNotEmpty].
func NewTarget(ctx context.Context, o Options) (*Target, error) {
	shell, err := newShell(o)
	if err != nil {
		return nil, err
	}
	if err := shell.inspect(); err != nil {
		return nil, fmt.Errorf("redis storage: %w", err)
	}
	b, err := newBulk(shell)
	if err != nil {
		return nil, fmt.Errorf("redis storage: %w", err)
	}
	t := &Target{bulk: b, sequence: make(map[int64]int64), collections: make(map[string]bool)}
	if err := t.begin(ctx); err != nil {
		b.close()
		return nil, fmt.Errorf("redis storage: %w", err)
	}
	return t, nil
}

// begin marks the prefix as one that is being filled.
func (t *Target) begin(ctx context.Context) error {
	i, value, err := t.readIdentity(ctx)
	if err != nil {
		return err
	}
	if i.State != unfinishedState {
		if err := t.requireEmpty(ctx, i); err != nil {
			return err
		}
	}
	t.identity = identity{Schema: schema, ID: rand.Text(), State: unfinishedState}
	if err := t.swapIdentity(ctx, value); err != nil {
		return err
	}
	// What an unfinished filling has left, and the marks of a store that kept nothing.
	return t.scan(ctx, t.names.pattern("*"), func(names []string) (bool, error) {
		var cmds []rueidis.Completed
		for _, name := range names {
			if name != t.names.store() {
				cmds = append(cmds, t.client.B().Unlink().Key(name).Build())
			}
		}
		_, err := t.many(ctx, cmds...)
		return true, err
	})
}

// readIdentity returns the identity and its value. Both are empty if there is none.
func (t *Target) readIdentity(ctx context.Context) (i identity, value string, err error) {
	name := t.names.store()
	m, err := t.do(ctx, t.client.B().Get().Key(name).Build())
	if err != nil || m.IsNil() {
		return i, "", err
	}
	if value, err = m.ToString(); err != nil {
		return i, "", errAnswer
	}
	if present(value) == "" {
		return i, value, nil
	}
	i, err = openIdentity(name, value)
	return i, value, err
}

// swapIdentity replaces the identity by that of the target, if it is what it was taken for.
func (t *Target) swapIdentity(ctx context.Context, was string) error {
	becomes, err := t.shell.sealIdentity(t.identity)
	if err != nil {
		return err
	}
	const forever = "99999999999999"
	args := []string{present(was), becomes, forever}
	m, err := swapScript.Exec(ctx, t.client, []string{t.names.store()}, args).ToArray()
	if err != nil {
		return t.failed(ctx, err)
	}
	if len(m) < 1 {
		return errAnswer
	}
	if outcome, err := m[0].ToString(); err != nil || outcome != done {
		return errors.New("somebody else fills it, or uses it")
	}
	t.value = becomes
	return nil
}

// notEmptyError is a [contents.ErrNotEmpty].
type notEmptyError struct{ text string }

func (e notEmptyError) Error() string { return e.text }

func (notEmptyError) Unwrap() error { return contents.ErrNotEmpty }

// requireEmpty returns an error if anything is kept.
func (t *Target) requireEmpty(ctx context.Context, i identity) error {
	if i.Seeded || i.State != "" {
		return notEmptyError{fmt.Sprintf("a store with the prefix %s is there", t.shell.options.Prefix)}
	}
	err := t.scan(ctx, t.names.pattern("*"), func(names []string) (bool, error) {
		for _, name := range names {
			rest := strings.TrimPrefix(name, t.names.prefix)
			if rest != "store" && rest != "nodes" && rest != "hold" && !strings.HasPrefix(rest, "store:") && !strings.HasPrefix(rest, "probe:") {
				return false, notEmptyError{fmt.Sprintf("the database is not empty: it has names that begin with %s",
					t.names.prefix)}
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	nodes, err := t.liveNodes(ctx)
	if err != nil {
		return err
	}
	if nodes > 0 {
		return notEmptyError{fmt.Sprintf("%d servers use the prefix %s: stop them first", nodes, t.shell.options.Prefix)}
	}
	return nil
}

// liveNodes returns how many nodes use the prefix.
func (b *bulk) liveNodes(ctx context.Context) (int64, error) {
	now, err := b.do(ctx, b.client.B().Time().Build())
	if err != nil {
		return 0, err
	}
	parts, err := now.AsIntSlice()
	if err != nil || len(parts) < 1 {
		return 0, errAnswer
	}
	since := strconv.FormatInt(parts[0]*1000-nodeAlive.Milliseconds(), 10)
	m, err := b.do(ctx, b.client.B().Zcount().Key(b.names.nodes()).Min(since).Max("+inf").Build())
	if err != nil {
		return 0, err
	}
	return m.AsInt64()
}

// Contents implements [contents.Source].
func (t *Target) Contents(ctx context.Context, only *contents.Selection) contents.Items {
	return func(yield func(contents.Item, error) bool) {
		e := &exporter{bulk: t.bulk, ctx: ctx, yield: yield}
		e.all(only)
	}
}

// Put implements [contents.Target].
func (t *Target) Put(ctx context.Context, items contents.Items) error {
	for item, err := range items {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = t.put(ctx, item)
		}
		if err == nil && (len(t.cmds) >= maxCommands || t.size >= maxBytes) {
			err = t.flush(ctx)
		}
		if err != nil {
			return err
		}
	}
	return t.flush(ctx)
}

// flush sends what is collected.
func (t *Target) flush(ctx context.Context) error {
	cmds := t.cmds
	t.cmds, t.size = nil, 0
	_, err := t.many(ctx, cmds...)
	return err
}

func (t *Target) add(cmd rueidis.Completed, size int) {
	t.cmds = append(t.cmds, cmd)
	t.size += size
}

func (t *Target) put(ctx context.Context, item contents.Item) error {
	switch {
	case item.Seeded:
		t.identity.Seeded = true
		return t.swapIdentity(ctx, t.value)
	case item.Owner != nil:
		return t.putOwner(item.Owner)
	case item.Feedback != nil:
		return t.putFeedback(item)
	case item.Document != nil:
		t.putDocument(item.Document)
	case item.Forget != nil:
		return t.forget(ctx, item.Forget)
	}
	return nil
}

// putDocument collects a document.
func (t *Target) putDocument(d *contents.Document) {
	b := t.client.B()
	if !t.collections[d.Collection] {
		t.collections[d.Collection] = true
		t.add(b.Zadd().Key(t.names.collections()).ScoreMember().ScoreMember(0, d.Collection).Build(), 0)
	}
	name := t.names.document(d.Collection, d.Key)
	value := seal(name, "", d.Value)
	t.add(b.Set().Key(name).Value(value).Build(), len(value))
	t.add(b.Zadd().Key(t.names.documentIndex(d.Collection)).ScoreMember().ScoreMember(0, d.Key).Build(), 0)
}

// forgetDocuments deletes documents that came before: one, or all of a collection.
func (t *Target) forgetDocuments(ctx context.Context, f *contents.Forget) error {
	b := t.client.B()
	index := t.names.documentIndex(f.Collection)
	keys := []string{f.Document}
	if f.Document == "" {
		m, err := t.do(ctx, b.Zrange().Key(index).Min("0").Max("-1").Build())
		if err != nil {
			return err
		}
		if keys, err = m.AsStrSlice(); err != nil {
			return errAnswer
		}
	}
	for _, key := range keys {
		t.add(b.Unlink().Key(t.names.document(f.Collection, key)).Build(), 0)
		t.add(b.Zrem().Key(index).Member(key).Build(), 0)
		if len(t.cmds) >= maxCommands {
			if err := t.flush(ctx); err != nil {
				return err
			}
		}
	}
	return t.flush(ctx)
}

// hash collects fields of a hash.
func (t *Target) hash(name string, fields [][2]string) {
	for len(fields) > 0 {
		n := min(len(fields), maxFields)
		cmd := t.client.B().Hset().Key(name).FieldValue()
		size := len(name)
		for _, f := range fields[:n] {
			cmd = cmd.FieldValue(f[0], f[1])
			size += len(f[0]) + len(f[1])
		}
		t.add(cmd.Build(), size)
		fields = fields[n:]
	}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func (t *Target) putOwner(o *contents.Owner) error {
	b := t.client.B()
	if o.Account != nil || len(o.Keys) > 0 {
		t.add(b.Zadd().Key(t.names.ids(o.ID)).ScoreMember().ScoreMember(0, o.ID).Build(), len(o.ID))
	}
	if o.Account != nil {
		value, err := t.names.sealAccount(*o.Account)
		if err != nil {
			return err
		}
		t.add(b.Set().Key(t.names.of(o.ID, accountTable)).Value(value).Build(), len(value))
	}
	var index, used [][2]string
	for _, k := range o.Keys {
		if k.LastUsed != "" {
			day, err := time.Parse(time.DateOnly, k.LastUsed)
			if err != nil {
				return fmt.Errorf("the last use of key %s is no day", k.ID)
			}
			used = append(used, [2]string{k.ID, number(dayOf(day))})
		}
		k.LastUsed = ""
		value, err := t.names.sealKey(k)
		if err != nil {
			return err
		}
		index = append(index, [2]string{k.ID, hexOf(k.Hash)})
		t.add(b.Set().Key(t.names.keyID(k.ID)).Value(newClaim(k.Hash, "0")).Build(), len(k.ID))
		t.add(b.Set().Key(t.names.key(k.Hash)).Value(value).Build(), len(value))
	}
	t.hash(t.names.of(o.ID, keysTable), index)
	t.hash(t.names.of(o.ID, usedTable), used)
	t.putWindows(o)
	return nil
}

// putWindows collects the counts of an owner.
func (t *Target) putWindows(o *contents.Owner) {
	var counts, details, bounds [][2]string
	for _, c := range o.Minutes {
		counts = append(counts, [2]string{"m" + number(c.At), number(c.Requests)})
	}
	for _, c := range o.Days {
		counts = append(counts, [2]string{"d" + number(c.At), number(c.Requests)})
	}
	for _, p := range o.Periods {
		start := strings.TrimPrefix(periodName(time.Unix(p.Start, p.StartNS)), "p")
		if !p.More {
			counts = append(counts, [2]string{"p" + start, number(p.Requests)})
		}
		for category, n := range p.Flagged {
			details = append(details, [2]string{"f" + start + "/" + category, number(n)})
		}
		for key, n := range p.Keys {
			details = append(details, [2]string{"k" + start + "/" + key, number(n)})
		}
	}
	for _, b := range o.Bounds {
		bounds = append(bounds, [2]string{"r" + number(b.Day), number(b.Records)},
			[2]string{"b" + number(b.Day), number(b.Bytes)})
	}
	t.hash(t.names.of(o.ID, countsTable), counts)
	t.hash(t.names.of(o.ID, detailsTable), details)
	t.hash(t.names.of(o.ID, boundsTable), bounds)
}

// putFeedback collects a record. Its id in the stream is before all that the server makes.
func (t *Target) putFeedback(item contents.Item) error {
	r := item.Feedback
	value, _, err := t.names.sealFeedback(*r)
	if err != nil {
		return err
	}
	day := dayOf(r.Time)
	t.sequence[day]++
	id := "1-" + number(t.sequence[day])
	b := t.client.B()
	if t.sequence[day] == 1 {
		t.add(b.Zadd().Key(t.names.feedbackDays()).ScoreMember().ScoreMember(float64(day), number(day)).Build(), 0)
	}
	t.add(b.Xadd().Key(t.names.feedbackRecords(day)).Id(id).FieldValue().FieldValue("r", value).Build(), len(value))
	t.add(b.Zadd().Key(t.names.feedbackOrder(day)).ScoreMember().ScoreMember(0, orderEntry(r.Ref())+id).Build(), 0)
	return nil
}

// forget deletes what came before.
func (t *Target) forget(ctx context.Context, f *contents.Forget) error {
	if err := t.flush(ctx); err != nil {
		return err
	}
	if f.Collection != "" {
		return t.forgetDocuments(ctx, f)
	}
	b := t.client.B()
	if f.Owner == "" {
		delete(t.sequence, f.Day)
		t.add(b.Unlink().Key(t.names.feedbackRecords(f.Day)).Build(), 0)
		t.add(b.Unlink().Key(t.names.feedbackOrder(f.Day)).Build(), 0)
		t.add(b.Zrem().Key(t.names.feedbackDays()).Member(number(f.Day)).Build(), 0)
		return t.flush(ctx)
	}
	m, err := t.do(ctx, b.Hgetall().Key(t.names.of(f.Owner, keysTable)).Build())
	if err != nil {
		return err
	}
	index, err := m.AsStrMap()
	if err != nil {
		return errAnswer
	}
	for id, digits := range index {
		t.add(b.Unlink().Key(t.names.keyID(id)).Build(), 0)
		t.add(b.Unlink().Key(t.names.prefix+"key:"+digits).Build(), 0)
	}
	for _, table := range append([]string{accountTable}, ownerTables...) {
		t.add(b.Unlink().Key(t.names.of(f.Owner, table)).Build(), 0)
	}
	t.add(b.Zrem().Key(t.names.ids(f.Owner)).Member(f.Owner).Build(), 0)
	return t.flush(ctx)
}

// Finish implements [contents.Target]. What survives the loss of power is what the server saves.
func (t *Target) Finish(ctx context.Context) error {
	if err := t.flush(ctx); err != nil {
		return err
	}
	var marks []rueidis.Completed
	for n := range shards {
		marks = append(marks, t.client.B().Set().Key(t.names.mark(n)).Value(t.identity.ID).Build())
	}
	if _, err := t.many(ctx, marks...); err != nil {
		return err
	}
	t.identity.State = ""
	if err := t.swapIdentity(ctx, t.value); err != nil {
		t.identity.State = unfinishedState
		return err
	}
	return nil
}

// Close implements [contents.Target].
func (t *Target) Close() error {
	t.close()
	return nil
}

// Void implements [contents.Target].
func (t *Target) Void(ctx context.Context) error {
	b, err := newBulk(t.shell) // the target may be closed
	if err != nil {
		return err
	}
	defer b.close()
	again := &Target{bulk: b}
	i, value, err := again.readIdentity(ctx)
	if err != nil {
		return err
	}
	if i.ID != t.identity.ID {
		return nil // it is another one by now
	}
	again.identity = i
	again.identity.State = unfinishedState
	return again.swapIdentity(ctx, value)
}

// Restore fills the prefix of the options, which must have no names, from what [Store.Backup] has written.
func Restore(ctx context.Context, o Options, from io.Reader) error {
	t, err := NewTarget(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(contents.Load(ctx, t, from), t.Close())
}

// Interface guard
var _ contents.Target = (*Target)(nil)
