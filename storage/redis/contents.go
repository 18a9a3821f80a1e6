// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
)

const (
	// ownersAtOnce is how many owners are read at once.
	ownersAtOnce = 100
	// maxPart is how many elements a part of an owner has.
	maxPart = 500
	// recordsAtOnce is how many records of feedback are read at once.
	recordsAtOnce = 200
)

// Contents implements [contents.Source].
func (s *Store) Contents(ctx context.Context, only *contents.Selection) contents.Items {
	return func(yield func(contents.Item, error) bool) {
		err := s.ready(ctx)
		if err == nil {
			err = s.usable()
		}
		var b *bulk
		if err == nil {
			b, err = newBulk(s)
		}
		if err != nil {
			yield(contents.Item{}, err)
			return
		}
		defer b.close()
		e := &exporter{bulk: b, ctx: ctx, yield: yield}
		e.all(only)
	}
}

// exporter yields items. Its methods return false when the consumer wants no more, or after an error that ends the
// sequence.
type exporter struct {
	*bulk
	ctx   context.Context
	yield func(contents.Item, error) bool
	// days is how far the days of feedback were read. It may be nil.
	days map[int64]*dayRead
}

// dayRead is how far a day of feedback was read.
type dayRead struct {
	// last is the id in the stream of the last record that was read, and records how many were.
	last    string
	records int64
}

// fail yields an error, and reports whether the sequence goes on.
func (e *exporter) fail(err error) bool {
	return e.yield(contents.Item{}, err) && errors.Is(err, errDamaged)
}

// all yields everything, or what is selected.
func (e *exporter) all(only *contents.Selection) bool {
	if only == nil {
		return e.seeded() && e.listedOwners() && e.otherOwners() && e.feedback() && e.documents()
	}
	for owners := range slices.Chunk(only.Owners, ownersAtOnce) {
		if !e.owners(owners) {
			return false
		}
	}
	for _, day := range only.Days {
		if !e.day(day, "") {
			return false
		}
	}
	for _, collection := range only.Collections {
		if !e.collection(collection) {
			return false
		}
	}
	return true
}

func (e *exporter) seeded() bool {
	name := e.names.store()
	m, err := e.do(e.ctx, e.client.B().Get().Key(name).Build())
	if err != nil {
		return e.fail(err)
	}
	value, err := m.ToString()
	if err != nil {
		return true // there is none
	}
	i, err := openIdentity(name, value)
	if err != nil {
		return e.fail(err)
	}
	return !i.Seeded || e.yield(contents.Item{Seeded: true}, nil)
}

// listedOwners yields the owners that are listed: those with an account or with keys.
func (e *exporter) listedOwners() bool {
	for n := range shards {
		for after := "-"; after != ""; {
			m, err := e.do(e.ctx, e.client.B().Zrange().Key(e.names.shard(n)).Min(after).Max("+").Bylex().
				Limit(0, ownersAtOnce).Build())
			if err != nil {
				return e.fail(err)
			}
			ids, err := m.AsStrSlice()
			if err != nil {
				return e.fail(errAnswer)
			}
			if after = ""; len(ids) == ownersAtOnce {
				after = "(" + ids[len(ids)-1]
			}
			if !e.owners(ids) {
				return false
			}
		}
	}
	return true
}

// otherOwners yields the owners that are not listed: declared accounts, which have nothing but counts and bounds.
func (e *exporter) otherOwners() bool {
	seen := make(map[string]bool)
	goesOn := true
	err := e.scan(e.ctx, e.names.pattern("{a:*"), func(names []string) (bool, error) {
		var ids []string
		for _, name := range names {
			kind, id := e.names.kindOf(name)
			if kind == nameOfOwner && (strings.HasSuffix(name, ":"+countsTable) || strings.HasSuffix(name, ":"+boundsTable)) {
				ids = append(ids, id)
			}
		}
		unlisted, err := e.unlisted(ids)
		if err != nil {
			return false, err
		}
		ids = ids[:0]
		for _, id := range unlisted {
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
		goesOn = e.owners(ids)
		return goesOn, nil
	})
	if err != nil {
		return e.fail(err)
	}
	return goesOn
}

// unlisted returns the ids that are not listed.
func (e *exporter) unlisted(ids []string) (unlisted []string, err error) {
	cmds := make([]rueidis.Completed, len(ids))
	for i, id := range ids {
		cmds[i] = e.client.B().Zscore().Key(e.names.ids(id)).Member(id).Build()
	}
	answers, err := e.many(e.ctx, cmds...)
	if err != nil {
		return nil, err
	}
	for i, m := range answers {
		if m.IsNil() {
			unlisted = append(unlisted, ids[i])
		}
	}
	return unlisted, nil
}

// ownerTables are the tables of an owner that are read.
var ownerTables = []string{keysTable, usedTable, countsTable, detailsTable, boundsTable}

// owners reads some owners and yields them.
func (e *exporter) owners(ids []string) bool {
	if len(ids) == 0 {
		return true
	}
	b := e.client.B()
	var cmds []rueidis.Completed
	for _, id := range ids {
		cmds = append(cmds, b.Get().Key(e.names.of(id, accountTable)).Build())
		for _, table := range ownerTables {
			cmds = append(cmds, b.Hgetall().Key(e.names.of(id, table)).Build())
		}
	}
	answers, err := e.many(e.ctx, cmds...)
	if err != nil {
		return e.fail(err)
	}
	each := 1 + len(ownerTables)
	for i, id := range ids {
		if !e.owner(id, answers[i*each:(i+1)*each]) {
			return false
		}
	}
	return true
}

// ownerPart is a part of an owner that is being collected.
type ownerPart struct {
	*exporter
	owner contents.Owner
	size  int
}

// grow notes that an element was added, and yields the part when it is large.
func (p *ownerPart) grow() bool {
	p.size++
	return p.size < maxPart || p.flush()
}

func (p *ownerPart) flush() bool {
	if p.size == 0 {
		return true
	}
	owner := p.owner
	p.owner, p.size = contents.Owner{ID: owner.ID}, 0
	return p.yield(contents.Item{Owner: &owner}, nil)
}

// owner yields what was answered about one owner: the account, and its tables.
func (e *exporter) owner(id string, answers []rueidis.RedisMessage) bool {
	p := &ownerPart{exporter: e, owner: contents.Owner{ID: id}}
	if value, err := answers[0].ToString(); err == nil && present(value) != "" {
		account, err := e.names.openAccount(e.names.of(id, accountTable), value)
		switch {
		case err == nil:
			p.owner.Account = account
			if !p.grow() {
				return false
			}
		case !e.fail(err):
			return false
		}
	}
	var tables [5]map[string]string
	for i := range tables {
		var err error
		if tables[i], err = answers[1+i].AsStrMap(); err != nil {
			return e.fail(errAnswer)
		}
	}
	return p.keys(tables[0], tables[1]) && p.counts(tables[2], tables[3]) && p.bounds(tables[4]) && p.flush()
}

// keys adds the keys of an owner.
func (p *ownerPart) keys(index, used map[string]string) bool {
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(index)), maxPart) {
		cmds := make([]rueidis.Completed, len(ids))
		hashes := make([]quota.Hash, len(ids))
		for i, id := range ids {
			var err error
			if hashes[i], err = parseHash(index[id]); err != nil && !p.fail(fmt.Errorf("%w: key %s", errDamaged, id)) {
				return false
			}
			cmds[i] = p.client.B().Get().Key(p.names.key(hashes[i])).Build()
		}
		answers, err := p.many(p.ctx, cmds...)
		if err != nil {
			return p.fail(err)
		}
		for i, id := range ids {
			value, _ := answers[i].ToString() // nothing if there is none
			k, err := p.shell.openKeyWithID(hashes[i], present(value), id)
			if err == nil && used[id] != "" {
				k.LastUsed, err = dateOf(id, used[id])
			}
			switch {
			case errors.Is(err, quota.ErrNotFound): // deleted meanwhile, or never added
			case err != nil:
				if !p.fail(err) {
					return false
				}
			case k.Account == p.owner.ID:
				p.owner.Keys = append(p.owner.Keys, *k)
				if !p.grow() {
					return false
				}
			}
		}
	}
	return true
}

// counts adds the windows of an owner. Details of a period that does not exist are left out.
func (p *ownerPart) counts(counts, details map[string]string) bool {
	damaged := func() bool { return p.fail(fmt.Errorf("%w: the counts of account %s", errDamaged, p.owner.ID)) }
	var periods []string
	for _, field := range slices.Sorted(maps.Keys(counts)) {
		if field[0] == 'p' {
			periods = append(periods, field[1:])
			continue
		}
		at, err := strconv.ParseInt(field[1:], 10, 64)
		n, err2 := strconv.ParseInt(counts[field], 10, 64)
		known := field[0] == 'm' || field[0] == 'd'
		if err != nil || err2 != nil || !known {
			if !damaged() {
				return false
			}
			continue
		}
		if c := (contents.Count{At: at, Requests: n}); field[0] == 'm' {
			p.owner.Minutes = append(p.owner.Minutes, c)
		} else {
			p.owner.Days = append(p.owner.Days, c)
		}
		if !p.grow() {
			return false
		}
	}
	of := make(map[string][]string) // names of details by the start of the period
	for field := range details {
		start, _, _ := strings.Cut(field[min(1, len(field)):], "/")
		of[start] = append(of[start], field)
	}
	for _, start := range periods {
		ok, goesOn := p.period(start, counts["p"+start], of[start], details)
		if !goesOn || !ok && !damaged() {
			return false
		}
	}
	return true
}

// period adds a billing period and its details. It reports whether they are whole, and whether the sequence goes on.
func (p *ownerPart) period(start, requests string, fields []string, details map[string]string) (ok, goesOn bool) {
	at, ns, ok := parsePeriod(start)
	n, err := strconv.ParseInt(requests, 10, 64)
	if !ok || err != nil {
		return false, true
	}
	period := contents.Period{Start: at, StartNS: ns, Requests: n}
	p.owner.Periods = append(p.owner.Periods, period)
	if !p.grow() {
		return true, false
	}
	ok = true
	for _, field := range fields {
		_, name, _ := strings.Cut(field, "/")
		n, err := strconv.ParseInt(details[field], 10, 64)
		if err != nil {
			ok = false
			continue
		}
		if n == 0 {
			continue
		}
		if len(p.owner.Periods) == 0 {
			p.owner.Periods = append(p.owner.Periods, contents.Period{Start: at, StartNS: ns, More: true})
		}
		last := &p.owner.Periods[len(p.owner.Periods)-1]
		into := &last.Keys
		if field[0] == 'f' {
			into = &last.Flagged
		}
		if *into == nil {
			*into = make(map[string]int64)
		}
		(*into)[name] = n
		if !p.grow() {
			return ok, false
		}
	}
	return ok, true
}

// parsePeriod parses the start of a period in the names of counts; see [periodName].
func parsePeriod(text string) (seconds, ns int64, ok bool) {
	whole, fraction, found := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if found && err == nil {
		ns, err = strconv.ParseInt(fraction, 10, 64)
	}
	return seconds, ns, err == nil
}

// bounds adds what is used of the feedback bounds.
func (p *ownerPart) bounds(bounds map[string]string) bool {
	for _, field := range slices.Sorted(maps.Keys(bounds)) {
		if field[0] != 'r' {
			continue
		}
		day, err := strconv.ParseInt(field[1:], 10, 64)
		records, err2 := strconv.ParseInt(bounds[field], 10, 64)
		bytes, err3 := strconv.ParseInt(cmp.Or(bounds["b"+field[1:]], "0"), 10, 64)
		if errors.Join(err, err2, err3) != nil {
			if !p.fail(fmt.Errorf("%w: the feedback of a day of account %s", errDamaged, p.owner.ID)) {
				return false
			}
			continue
		}
		p.owner.Bounds = append(p.owner.Bounds, contents.Bound{Day: day, Records: records, Bytes: bytes})
		if !p.grow() {
			return false
		}
	}
	return true
}

// feedback yields all records.
func (e *exporter) feedback() bool {
	m, err := e.do(e.ctx, e.client.B().Zrange().Key(e.names.feedbackDays()).Min("0").Max("-1").Build())
	if err != nil {
		return e.fail(err)
	}
	days, err := m.AsIntSlice()
	if err != nil {
		return e.fail(errAnswer)
	}
	for _, day := range days {
		if !e.day(day, "") {
			return false
		}
	}
	return true
}

// day yields the records of a day that came after another one in its stream, all of them for "".
func (e *exporter) day(day int64, after string) bool {
	name := e.names.feedbackRecords(day)
	read := &dayRead{last: after}
	if e.days != nil {
		if before := e.days[day]; before != nil && after != "" {
			read = before
		}
		e.days[day] = read
	}
	for {
		start := "-"
		if read.last != "" {
			start = "(" + read.last
		}
		m, err := e.do(e.ctx, e.client.B().Xrange().Key(name).Start(start).End("+").Count(recordsAtOnce).Build())
		if err != nil {
			return e.fail(err)
		}
		entries, err := m.AsXRange()
		if err != nil {
			return e.fail(errAnswer)
		}
		for _, entry := range entries {
			read.last = entry.ID
			read.records++
			var r feedback.Record
			r, err := e.names.openUnordered(day, entry.FieldValues["r"])
			if err != nil {
				if !e.fail(err) {
					return false
				}
				continue
			}
			if !e.yield(contents.Item{Feedback: &r}, nil) {
				return false
			}
		}
		if len(entries) < recordsAtOnce {
			return true
		}
	}
}

// documents yields all documents.
func (e *exporter) documents() bool {
	m, err := e.do(e.ctx, e.client.B().Zrange().Key(e.names.collections()).Min("0").Max("-1").Build())
	if err != nil {
		return e.fail(err)
	}
	collections, err := m.AsStrSlice()
	if err != nil {
		return e.fail(errAnswer)
	}
	for _, collection := range collections {
		if !e.collection(collection) {
			return false
		}
	}
	return true
}

// collection yields the documents of a collection.
func (e *exporter) collection(collection string) bool {
	for from := "-"; from != ""; {
		m, err := e.do(e.ctx, e.client.B().Zrange().Key(e.names.documentIndex(collection)).Min(from).Max("+").Bylex().
			Limit(0, documentPage).Build())
		if err != nil {
			return e.fail(err)
		}
		keys, err := m.AsStrSlice()
		if err != nil {
			return e.fail(errAnswer)
		}
		if from = ""; len(keys) == documentPage {
			from = "(" + keys[len(keys)-1]
		}
		if !e.someDocuments(collection, keys, false) {
			return false
		}
	}
	return true
}

// someDocuments yields documents. Those that are gone are left out, or yielded as what is to be forgotten.
func (e *exporter) someDocuments(collection string, keys []string, forget bool) bool {
	cmds := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		cmds[i] = e.client.B().Get().Key(e.names.document(collection, key)).Build()
	}
	answers, err := e.many(e.ctx, cmds...)
	if err != nil {
		return e.fail(err)
	}
	for i, m := range answers {
		value, _ := m.ToString() // nothing if there is none
		if value == "" {
			gone := contents.Item{Forget: &contents.Forget{Collection: collection, Document: keys[i]}}
			if forget && !e.yield(gone, nil) {
				return false
			}
			continue
		}
		d, err := e.names.openDocument(collection, keys[i], value)
		if err != nil {
			if !e.fail(err) {
				return false
			}
			continue
		}
		item := contents.Item{Document: &contents.Document{Collection: collection, Key: d.Key, Value: d.Value}}
		if !e.yield(item, nil) {
			return false
		}
	}
	return true
}

// Interface guard
var _ contents.Source = (*Store)(nil)
