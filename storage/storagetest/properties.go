// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package storagetest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// propertiesTime is how long new rounds begin unless -rapid.checks says how many there are.
const propertiesTime = 8 * time.Second

// RunProperties compares a gate over a store with a model made of maps, over random sequences of everything that can
// happen: calls one by one and concurrent, clocks that move on and jump, changed tiers and limits, keys and accounts
// that are created and deleted with calls in flight, feedback, reopenings. After each step it compares everything
// that can be asked for. A failure is reduced to a short sequence of steps. It ends after 100 rounds or some seconds,
// or after as many rounds as the flag -rapid.checks says.
func RunProperties(t *testing.T, open Open) {
	t.Helper()
	var s storage.Store
	var reopen func() storage.Store
	round, failed := 0, false
	began, asked := time.Now(), flag.Lookup("rapid.checks").Value.String() != "100"
	rapid.Check(t, func(r *rapid.T) {
		if !asked && !failed && time.Since(began) > propertiesTime {
			return
		}
		// A store is good for many rounds, whose accounts have ids of their own.
		if round%50 == 0 {
			if s != nil {
				must(t, s.Close())
			}
			s, reopen = open(t)
		}
		round++
		m := newMachine(r, fmt.Sprintf("r%d-", round), s)
		defer func() {
			failed = failed || r.Failed()
			s = m.store
			m.leave(t)
		}()
		actions := map[string]func(*rapid.T){
			"": m.check, "call": m.call, "settle": m.settle, "burst": m.burst, "late": m.late,
			"tour": m.tour, "clock": m.moveClock,
			"limits": m.changeLimits, "account": m.createAccount, "delete": m.deleteAccount,
			"key": m.createKey, "revoke": m.revokeKey, "rotate": m.rotateKey, "feedback": m.feedback,
			"erase": m.erase,
		}
		if reopen != nil {
			actions["reopen"] = func(*rapid.T) { m.use(reopen()) }
		}
		r.Repeat(actions)
	})
}

// machine is a gate over a store, and the model of what they must answer.
type machine struct {
	id    string // begins all ids of the round
	store storage.Store
	gate  *quota.Gate
	now   time.Time

	accounts map[string]quota.Account
	keys     map[string]modelKey // by secret
	secrets  []string            // of all keys, the oldest first
	counts   map[counter]int64
	flagged  map[counter]map[string]int64
	byKey    map[counter]map[string]int64
	bounds   map[counter]feedback.Bound
	records  []feedback.Record

	inFlight []quota.Decision
	charges  []quota.Charge // of the calls in flight
	held     []quota.Identity
	instants []time.Time // some at which calls were made
	made     int
}

// modelKey is a key of the model. It stays known when it is deleted with its account.
type modelKey struct {
	quota.Key
	removed bool
}

var tiers = map[string]quota.Limits{
	"free":   {RequestsPerMonth: 60, RequestsPerMinute: 20},
	"minute": {RequestsPerMinute: 30},
	"month":  {RequestsPerMonth: 100},
	"open":   {},
}

// declaredKey is the key of the declared account. Nothing of it is stored.
const declaredKey = "a_key_of_the_configuration"

func newMachine(r *rapid.T, id string, s storage.Store) *machine {
	m := &machine{
		id: id, now: noon,
		accounts: map[string]quota.Account{}, keys: map[string]modelKey{},
		counts: map[counter]int64{}, flagged: map[counter]map[string]int64{}, bounds: map[counter]feedback.Bound{},
		byKey: map[counter]map[string]int64{},
	}
	declared := quota.Account{ID: id + "declared", Tier: "free", Status: quota.Active, AnchorDay: 31, Declared: true}
	m.accounts[declared.ID] = declared
	m.add(declaredKey, quota.Key{ID: id + "key", Account: declared.ID, Hash: quota.HashKey(declaredKey),
		Declared: true})
	m.use(s)
	m.createAccount(r)
	m.createKey(r)
	return m
}

// use goes on with another store that must hold what the one before held.
func (m *machine) use(s storage.Store) {
	m.store = s
	declared := m.accounts[m.id+"declared"]
	var err error
	m.gate, err = quota.New(quota.Options{
		Store: s, Tiers: tiers, Accounts: []quota.Account{declared}, Keys: []quota.Key{m.keys[declaredKey].Key},
		Now: func() time.Time { return m.now },
	})
	if err != nil {
		panic(err)
	}
}

// leave deletes what the round has stored, except feedback.
func (m *machine) leave(t *testing.T) {
	for id, a := range m.accounts {
		if !a.Declared {
			if err := m.store.DeleteAccount(context.Background(), id); err != nil &&
				!errors.Is(err, quota.ErrNotFound) {
				t.Errorf("deleting account %s: got the error %v, want none or %v", id, err, quota.ErrNotFound)
			}
		}
	}
}

func want(r *rapid.T, doing string, got, want error) {
	r.Helper()
	if (got == nil) != (want == nil) || !errors.Is(got, want) {
		r.Fatalf("%s: got the error %v, want %v", doing, got, want)
	}
}

func same(r *rapid.T, what string, got, want any) {
	r.Helper()
	if !reflect.DeepEqual(got, want) {
		r.Fatalf("%s: got\n%+v, want\n%+v", what, got, want)
	}
}

// pick draws one element, and skips the step if there is none.
func pick[V any](r *rapid.T, label string, from []V) V {
	if len(from) == 0 {
		r.Skip("none")
	}
	return from[rapid.IntRange(0, len(from)-1).Draw(r, label)]
}

// add adds a key to the model.
func (m *machine) add(secret string, k quota.Key) {
	m.secrets = append(m.secrets, secret)
	m.keys[secret] = modelKey{Key: k}
}

func (m *machine) stored() []string {
	var all []string
	for id, a := range m.accounts {
		if !a.Declared {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

// refused reports whether a key is deleted, revoked or expired now.
func (m *machine) refused(k modelKey) bool {
	return k.removed || k.Revoked != nil || k.Expires != nil && !m.now.Before(*k.Expires)
}

// limits returns the limits of an account.
func limits(a quota.Account) quota.Limits {
	l := tiers[a.Tier]
	if o := a.Overrides.RequestsPerMonth; o != nil {
		l.RequestsPerMonth = *o
	}
	if o := a.Overrides.RequestsPerMinute; o != nil {
		l.RequestsPerMinute = *o
	}
	return l
}

// authenticate draws a key and authenticates it.
func (m *machine) authenticate(r *rapid.T) (quota.Identity, bool) {
	secret := pick(r, "key", m.secrets)
	k := m.keys[secret]
	who, err := m.gate.Authenticate(context.Background(), secret)
	if m.refused(k) {
		want(r, "authenticating", err, quota.ErrUnauthorized)
		return who, false
	}
	a := m.accounts[k.Account]
	if !a.Status.Served() {
		want(r, "authenticating", err, quota.ErrInactive)
		return who, false
	}
	want(r, "authenticating", err, nil)
	same(r, "the account that calls", who.Account, a)
	same(r, "the limits", who.Limits, limits(a))
	return who, true
}

// take does with the model what the store must do with a charge, and returns what it must answer.
func (m *machine) take(c quota.Charge) (quota.Counts, quota.Window) {
	minute, day, period := windows(c.Account, c.Now, c.Period)
	refused := quota.NoWindow
	if l := c.Limits.RequestsPerMinute; l > 0 && m.counts[minute]+c.Requests > l {
		refused = quota.MinuteWindow
	}
	if l := c.Limits.RequestsPerMonth; l > 0 && m.counts[period]+c.Requests > l {
		refused = quota.MonthWindow
	}
	if refused == quota.NoWindow {
		m.count(minute, quota.KeptMinutes, c.Requests)
		m.count(day, quota.KeptDays, c.Requests)
		m.count(period, quota.KeptPeriods, c.Requests)
		if m.byKey[period] == nil {
			m.byKey[period] = map[string]int64{}
		}
		m.byKey[period][c.Key] += c.Requests
		for secret, k := range m.keys {
			if k.ID == c.Key && !k.Declared {
				k.LastUsed = c.Now.Format(time.DateOnly)
				m.keys[secret] = k
			}
		}
		m.instants = append(m.instants, c.Now)
		m.instants = m.instants[max(len(m.instants)-4, 0):]
	}
	return quota.Counts{Minute: m.counts[minute], Day: m.counts[day], Period: m.counts[period]}, refused
}

func (m *machine) count(w counter, keep int, n int64) {
	if _, ok := m.counts[w]; !ok {
		for _, old := range evictedByModel(m.counts, w, keep) {
			delete(m.counts, old)
			delete(m.flagged, old)
			delete(m.byKey, old)
		}
	}
	m.counts[w] += n
}

// evictedByModel is [evicted], written in another way.
func evictedByModel[V any](all map[counter]V, w counter, keep int) (out []counter) {
	for old := range all {
		if old.table != w.table || old.account != w.account {
			continue
		}
		later := 0
		for other := range all {
			beside := other.table == w.table && other.account == w.account && (other.at < w.at) == (old.at < w.at)
			if beside && other.at > old.at {
				later++
			}
		}
		if later >= keep {
			out = append(out, old)
		}
	}
	return out
}

// settled does with the model what the store must do with an outcome.
func (m *machine) settled(c quota.Charge, o quota.Outcome) {
	if m.stale(c) {
		return
	}
	_, day, period := windows(c.Account, c.Now, c.Period)
	for _, w := range []counter{day, period} {
		if n, ok := m.counts[w]; ok && o.Refund {
			m.counts[w] = max(0, n-c.Requests)
		}
	}
	if m.byKey[period] != nil && o.Refund {
		m.byKey[period][c.Key] = max(0, m.byKey[period][c.Key]-c.Requests)
	}
	if _, ok := m.counts[period]; !ok {
		return
	}
	for _, category := range o.Flagged {
		if m.flagged[period] == nil {
			m.flagged[period] = map[string]int64{}
		}
		m.flagged[period][category]++
	}
}

// stale reports whether the account of a charge is not stored with its incarnation.
func (m *machine) stale(c quota.Charge) bool {
	return m.accounts[c.Account].Incarnation != c.Incarnation
}

func (m *machine) charge(who quota.Identity, n int64) quota.Charge {
	return quota.Charge{
		Account: who.Account.ID, Incarnation: who.Account.Incarnation, Key: who.Key.ID, Requests: n,
		Now: m.now.UTC(), Period: quota.PeriodOf(who.Account.AnchorDay, m.now), Limits: who.Limits,
	}
}

// admit asks the gate and the model to admit n requests.
func (m *machine) admit(r *rapid.T, who quota.Identity, n int64) (quota.Decision, bool) {
	c := m.charge(who, n)
	d, err := m.gate.Admit(context.Background(), who, n)
	if m.stale(c) {
		want(r, "admitting for a deleted account", err, quota.ErrNotFound)
		return d, false
	}
	want(r, "admitting", err, nil)
	counts, refused := m.take(c)
	same(r, "the decision", [3]any{d.Refused, d.Counts, d.Period}, [3]any{refused, counts, c.Period})
	return d, refused == quota.NoWindow
}

var outcomes = rapid.Custom(func(r *rapid.T) quota.Outcome {
	return quota.Outcome{
		Refund:  rapid.Bool().Draw(r, "refund"),
		Flagged: rapid.SliceOfN(rapid.SampledFrom([]string{"hate", "sexual", "self_harm"}), 0, 3).Draw(r, "flagged"),
	}
})

// call makes a call, which may stay in flight.
func (m *machine) call(r *rapid.T) {
	who, ok := m.authenticate(r)
	if !ok {
		return
	}
	n := rapid.Int64Range(1, 50).Draw(r, "requests")
	d, ok := m.admit(r, who, n)
	if !ok {
		return
	}
	if rapid.Bool().Draw(r, "stays") {
		m.inFlight, m.charges = append(m.inFlight, d), append(m.charges, m.charge(who, n))
		return
	}
	m.end(r, d, m.charge(who, n))
}

func (m *machine) end(r *rapid.T, d quota.Decision, c quota.Charge) {
	outcome := outcomes.Draw(r, "outcome")
	want(r, "settling", m.gate.Settle(context.Background(), d, outcome), nil)
	m.settled(c, outcome)
	if late := outcomes.Draw(r, "late").Flagged; rapid.Bool().Draw(r, "flag late") {
		want(r, "flagging late", m.gate.Flag(context.Background(), d, late), nil)
		m.settled(c, quota.Outcome{Flagged: late})
	}
}

// settle ends a call in flight. The clock, the account and the store may be others by now.
func (m *machine) settle(r *rapid.T) {
	if len(m.inFlight) == 0 {
		r.Skip("none")
	}
	i := rapid.IntRange(0, len(m.inFlight)-1).Draw(r, "call")
	d, c := m.inFlight[i], m.charges[i]
	m.inFlight, m.charges = slices.Delete(m.inFlight, i, i+1), slices.Delete(m.charges, i, i+1)
	m.end(r, d, c)
}

// late admits a call that was authenticated in an earlier step.
func (m *machine) late(r *rapid.T) {
	if rapid.Bool().Draw(r, "authenticate") || len(m.held) == 0 {
		if who, ok := m.authenticate(r); ok {
			m.held = append(m.held, who)
		}
		return
	}
	who := pick(r, "held", m.held)
	if d, ok := m.admit(r, who, 1); ok {
		m.end(r, d, m.charge(who, 1))
	}
}

// burst makes concurrent calls, which are settled concurrently.
func (m *machine) burst(r *rapid.T) {
	who, ok := m.authenticate(r)
	if !ok {
		return
	}
	n := rapid.Int64Range(1, 5).Draw(r, "requests")
	calls := make([]struct {
		d   quota.Decision
		err error
	}, rapid.IntRange(2, 16).Draw(r, "calls"))
	outcome := outcomes.Draw(r, "outcome")
	ctx := context.Background()
	atOnce := func(do func(i int)) {
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() { do(i) })
		}
		wg.Wait()
	}
	var admitted atomic.Int64
	atOnce(func(i int) {
		calls[i].d, calls[i].err = m.gate.Admit(ctx, who, n)
		if calls[i].err == nil && calls[i].d.Refused == quota.NoWindow {
			admitted.Add(1)
		}
	})
	c := m.charge(who, n)
	expected := int64(0)
	for i := range calls {
		want(r, "admitting one of many", calls[i].err, nil)
		if _, refused := m.take(c); refused == quota.NoWindow {
			expected++
		}
	}
	same(r, "the number of admitted calls", admitted.Load(), expected)
	atOnce(func(i int) { calls[i].err = m.gate.Settle(ctx, calls[i].d, outcome) })
	for i := range calls {
		want(r, "settling one of many", calls[i].err, nil)
		if calls[i].d.Refused == quota.NoWindow {
			m.settled(c, outcome)
		}
	}
}

// tour makes calls in consecutive windows, more of them than are kept.
func (m *machine) tour(r *rapid.T) {
	who, ok := m.authenticate(r)
	if !ok {
		return
	}
	tours := map[string]struct {
		kept int
		next func() time.Time
	}{
		"minutes": {quota.KeptMinutes, func() time.Time { return m.now.Add(time.Minute) }},
		"days":    {quota.KeptDays, func() time.Time { return m.now.Add(day) }},
		"periods": {quota.KeptPeriods, func() time.Time { return quota.PeriodOf(who.Account.AnchorDay, m.now).End }},
	}
	of := tours[pick(r, "windows", []string{"days", "minutes", "periods"})]
	outcome := outcomes.Draw(r, "outcome")
	for range rapid.IntRange(1, of.kept+10).Draw(r, "calls") {
		if d, ok := m.admit(r, who, 1); ok {
			want(r, "settling", m.gate.Settle(context.Background(), d, outcome), nil)
			m.settled(m.charge(who, 1), outcome)
		}
		m.now = of.next()
	}
}

// moveClock lets time pass or the clock jump.
func (m *machine) moveClock(r *rapid.T) {
	midnight := m.now.Truncate(day).Add(day)
	month := quota.PeriodOf(0, m.now).End
	moves := map[string]func() time.Time{
		"seconds": func() time.Time {
			return m.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(r, "seconds")) * time.Second)
		},
		"seconds back": func() time.Time {
			return m.now.Add(-time.Duration(rapid.IntRange(1, 90).Draw(r, "seconds")) * time.Second)
		},
		"hours": func() time.Time {
			return m.now.Add(time.Duration(rapid.IntRange(1, 100).Draw(r, "hours")) * time.Hour)
		},
		"before midnight":  func() time.Time { return midnight.Add(-1) },
		"midnight":         func() time.Time { return midnight },
		"before the month": func() time.Time { return month.Add(-1) },
		"the month":        func() time.Time { return month },
		"anchor":           func() time.Time { return m.anchor(r).End },
		"before anchor":    func() time.Time { return m.anchor(r).End.Add(-1) },
		"ahead":            func() time.Time { return m.now.Add(400 * day) },
		"behind":           func() time.Time { return m.now.Add(-400 * day) },
		"the beginning":    func() time.Time { return noon },
	}
	names := make([]string, 0, len(moves))
	for name := range moves {
		names = append(names, name)
	}
	slices.Sort(names)
	m.now = moves[pick(r, "move", names)]()
}

// anchor returns the present period of some account.
func (m *machine) anchor(r *rapid.T) quota.Period {
	return quota.PeriodOf(m.accounts[pick(r, "account", m.stored())].AnchorDay, m.now)
}

// changeLimits changes the tier, status, anchor day or overrides of a stored account.
func (m *machine) changeLimits(r *rapid.T) {
	id := pick(r, "account", m.stored())
	a := m.accounts[id]
	var change quota.AccountChange
	switch pick(r, "change", []string{"anchor", "overrides", "status", "tier"}) {
	case "tier":
		a.Tier = pick(r, "tier", []string{"free", "minute", "month", "open"})
		change.Tier = &a.Tier
	case "status":
		a.Status = pick(r, "status", []quota.Status{quota.Active, quota.Paused, quota.PastDue, "of_tomorrow"})
		change.Status = &a.Status
	case "anchor":
		a.AnchorDay = rapid.IntRange(0, 31).Draw(r, "anchor")
		change.AnchorDay = &a.AnchorDay
	case "overrides":
		limit := rapid.Ptr(rapid.Int64Range(0, 80), true)
		a.Overrides = quota.Overrides{RequestsPerMonth: limit.Draw(r, "month"),
			RequestsPerMinute: limit.Draw(r, "minute"),
			HarmShare:         rapid.Ptr(rapid.Float64Range(0.001, 0.99), true).Draw(r, "share"),
			Block:             pick(r, "block", [][]string{nil, {"a word"}, {"some", "words"}}),
		}
		change.Overrides = &a.Overrides
	}
	a.Updated = m.now.UTC()
	got, err := m.gate.UpdateAccount(context.Background(), id, change)
	want(r, "updating an account", err, nil)
	same(r, "the updated account", got, a)
	m.accounts[id] = a
}

// createAccount creates one of three accounts, which may exist, or have existed.
func (m *machine) createAccount(r *rapid.T) {
	wanted := quota.Account{
		ID:     m.id + pick(r, "id", []string{"a", "ab", "b"}),
		Tier:   pick(r, "tier", []string{"free", "minute", "month", "open"}),
		Status: quota.Active, AnchorDay: pick(r, "anchor", []int{0, 15, 29, 31}),
	}
	got, err := m.gate.CreateAccount(context.Background(), wanted)
	if _, there := m.accounts[wanted.ID]; there {
		want(r, "making an account that is there", err, quota.ErrExists)
		return
	}
	want(r, "making an account", err, nil)
	wanted.Created, wanted.Updated, wanted.Incarnation = m.now.UTC(), m.now.UTC(), got.Incarnation
	same(r, "the account", got, wanted)
	m.accounts[wanted.ID] = got
}

func (m *machine) deleteAccount(r *rapid.T) {
	id := pick(r, "account", m.stored())
	want(r, "deleting an account", m.gate.DeleteAccount(context.Background(), id), nil)
	delete(m.accounts, id)
	for secret, k := range m.keys {
		if k.Account == id {
			k.removed = true
			m.keys[secret] = k
		}
	}
	for w := range m.counts {
		if w.account == id {
			delete(m.counts, w)
			delete(m.flagged, w)
			delete(m.byKey, w)
		}
	}
	for w := range m.bounds {
		if w.account == id {
			delete(m.bounds, w)
		}
	}
}

func (m *machine) createKey(r *rapid.T) {
	holders := append(m.stored(), m.id+"declared")
	m.made++
	wanted := quota.KeySpec{Account: pick(r, "account", holders), Name: fmt.Sprint(m.made)}
	if rapid.Bool().Draw(r, "expires") {
		expires := m.now.Add(time.Duration(rapid.IntRange(1, 100).Draw(r, "hours")) * time.Hour).UTC()
		wanted.Expires = &expires
	}
	secret, got, err := m.gate.CreateKey(context.Background(), wanted)
	want(r, "making a key", err, nil)
	key := quota.Key{ID: got.ID, Account: wanted.Account, Name: wanted.Name, Hash: quota.HashKey(secret),
		Created: m.now.UTC(), Expires: wanted.Expires}
	same(r, "the key", got, key)
	m.add(secret, key)
}

// storedKey draws a key that is stored or was stored.
func (m *machine) storedKey(r *rapid.T) (string, modelKey) {
	secrets := slices.DeleteFunc(slices.Clone(m.secrets), func(secret string) bool { return m.keys[secret].Declared })
	secret := pick(r, "key", secrets)
	return secret, m.keys[secret]
}

func (m *machine) revokeKey(r *rapid.T) {
	secret, k := m.storedKey(r)
	got, err := m.gate.RevokeKey(context.Background(), k.ID)
	if k.removed {
		want(r, "revoking a key that was removed", err, quota.ErrNotFound)
		return
	}
	want(r, "revoking a key", err, nil)
	if k.Revoked == nil {
		now := m.now.UTC()
		k.Revoked = &now
	}
	same(r, "the revoked key", got, k.Key)
	m.keys[secret] = k
}

func (m *machine) rotateKey(r *rapid.T) {
	secret, k := m.storedKey(r)
	overlap := time.Duration(rapid.IntRange(0, 48).Draw(r, "hours")) * time.Hour
	rotation, err := m.gate.RotateKey(context.Background(), k.ID, overlap)
	switch {
	case k.removed:
		want(r, "rotating a key that was removed", err, quota.ErrNotFound)
		return
	case m.refused(k):
		want(r, "rotating a key that is refused", err, quota.ErrInvalid)
		return
	case m.replaced(k):
		want(r, "rotating a key that is replaced", err, quota.ErrReplaced)
		return
	}
	want(r, "rotating a key", err, nil)
	original := k.Expires
	if k.Replaced != nil {
		original = k.Replaced.OriginalExpires
	}
	key := quota.Key{ID: rotation.Key.ID, Account: k.Account, Name: k.Name, Hash: quota.HashKey(rotation.Secret),
		Created: m.now.UTC(), Expires: original}
	same(r, "the new key", rotation.Key, key)
	m.add(rotation.Secret, key)
	k.Replaced = &quota.Replacement{By: key.ID, At: m.now.UTC(), OriginalExpires: original}
	if end := m.now.UTC().Add(overlap); k.Expires == nil || end.Before(*k.Expires) {
		k.Expires = &end
	}
	same(r, "the old key", rotation.Old, k.Key)
	m.keys[secret] = k
}

// replaced reports whether one of the keys that replace a key, one after the other, is valid now.
func (m *machine) replaced(k modelKey) bool {
	for k.Replaced != nil {
		for _, next := range m.keys {
			if next.ID != k.Replaced.By {
				continue
			}
			if !m.refused(next) {
				return true
			}
			k = next
			break
		}
	}
	return false
}

// feedback appends a record, with a bound that may be used up.
func (m *machine) feedback(r *rapid.T) {
	record := feedback.Record{
		ID: fmt.Sprintf("%s%04d", m.id, rapid.IntRange(0, 30).Draw(r, "id")), Time: m.now.UTC(),
		Account: pick(r, "account", []string{m.id + "a", m.id + "b", m.id + "declared"}),
		Text:    strings.Repeat("x", rapid.IntRange(0, 20).Draw(r, "length")),
	}
	bound := feedback.Bound{Records: rapid.Int64Range(0, 4).Draw(r, "records"),
		Bytes: rapid.SampledFrom([]int64{0, 800}).Draw(r, "bytes")}
	err := m.store.AppendFeedback(context.Background(), record, bound)
	at, found := slices.BinarySearchFunc(m.records, record, byTimeAndID)
	if found {
		want(r, "keeping a record that is there", err, quota.ErrExists)
		return
	}
	_, today, _ := windows(record.Account, record.Time, quota.Period{})
	used, known := m.bounds[today]
	used.Records++
	size, encodeErr := encodedSize(record)
	want(r, "encoding a record", encodeErr, nil)
	used.Bytes += size
	if bound.Records > 0 && used.Records > bound.Records || bound.Bytes > 0 && used.Bytes > bound.Bytes {
		want(r, "keeping a record beyond the bound", err, feedback.ErrBound)
		return
	}
	want(r, "keeping a record", err, nil)
	if !known {
		for _, old := range evictedByModel(m.bounds, today, feedback.KeptDays) {
			delete(m.bounds, old)
		}
	}
	m.bounds[today] = used
	m.records = slices.Insert(m.records, at, record)
}

// erase deletes some records of feedback, and some that are not there.
func (m *machine) erase(r *rapid.T) {
	var refs []feedback.Ref
	for range rapid.IntRange(1, 4).Draw(r, "records") {
		ref := feedback.Ref{Time: m.now.UTC(), ID: m.id + "none"}
		if len(m.records) > 0 && rapid.Bool().Draw(r, "there") {
			ref = pick(r, "record", m.records).Ref()
		}
		refs = append(refs, ref)
	}
	deleted, err := m.store.DeleteFeedback(context.Background(), refs...)
	want(r, "deleting feedback", err, nil)
	before := len(m.records)
	m.records = slices.DeleteFunc(m.records, func(record feedback.Record) bool {
		return slices.ContainsFunc(refs, func(ref feedback.Ref) bool {
			return ref.ID == record.ID && ref.Time.Equal(record.Time)
		})
	})
	same(r, "the number of deleted records", deleted, before-len(m.records))
}

// check compares everything that can be asked for with the model.
func (m *machine) check(r *rapid.T) {
	ctx := context.Background()
	var ids []string
	for a, err := range m.gate.Accounts(ctx) {
		want(r, "listing accounts", err, nil)
		if strings.HasPrefix(a.ID, m.id) {
			same(r, "a listed account", a, m.accounts[a.ID])
			ids = append(ids, a.ID)
		}
	}
	same(r, "the list of accounts", ids, append(m.stored(), m.id+"declared"))
	for _, id := range []string{m.id + "a", m.id + "ab", m.id + "b", m.id + "declared"} {
		m.checkUsage(r, id)
		m.checkKeys(r, id)
		m.checkWindows(r, id)
		var records []feedback.Record
		for record, err := range m.store.Feedback(ctx, id) {
			want(r, "listing feedback", err, nil)
			records = append(records, record)
		}
		var expected []feedback.Record
		for _, record := range m.records {
			if record.Account == id {
				expected = append(expected, record)
			}
		}
		same(r, "the feedback of "+id, len(records), len(expected))
		for i := range records {
			same(r, "a feedback record", [3]any{records[i].ID, records[i].Time, records[i].Text},
				[3]any{expected[i].ID, expected[i].Time, expected[i].Text})
		}
	}
}

func (m *machine) checkUsage(r *rapid.T, id string) {
	got, err := m.gate.Usage(context.Background(), id)
	a, there := m.accounts[id]
	if !there {
		want(r, "the usage of no account", err, quota.ErrNotFound)
		return
	}
	want(r, "usage", err, nil)
	expected := quota.Usage{
		Account: a, Limits: limits(a), Now: m.now.UTC(), Period: quota.PeriodOf(a.AnchorDay, m.now),
		MinuteReset: m.now.UTC().Truncate(time.Minute).Add(time.Minute), Flagged: map[string]int64{},
	}
	minute, today, period := windows(id, m.now, expected.Period)
	expected.Counts = quota.Counts{Minute: m.counts[minute], Day: m.counts[today], Period: m.counts[period]}
	for category, n := range m.flagged[period] {
		expected.Flagged[category] = n
	}
	for i := range 30 {
		w := counter{'d', id, today.at - int64(i)}
		expected.Days = append(expected.Days,
			quota.DayCount{Date: m.now.UTC().AddDate(0, 0, -i).Format(time.DateOnly), Requests: m.counts[w]})
	}
	same(r, "the usage of "+id, got, expected)
}

// checkWindows compares windows of earlier calls.
func (m *machine) checkWindows(r *rapid.T, id string) {
	ctx := context.Background()
	for _, at := range m.instants {
		p := quota.PeriodOf(m.accounts[id].AnchorDay, at)
		minute, today, period := windows(id, at, p)
		got, err := m.store.Counts(ctx, id, at, p)
		want(r, "counts", err, nil)
		same(r, "the counts of "+id+" at "+at.String(), got,
			quota.Counts{Minute: m.counts[minute], Day: m.counts[today], Period: m.counts[period]})
		days, err := m.store.Days(ctx, id, at, 40)
		want(r, "days", err, nil)
		expected := make([]int64, 40)
		for i := range expected {
			expected[i] = m.counts[counter{'d', id, today.at - int64(i)}]
		}
		same(r, "the days of "+id+" at "+at.String(), days, expected)
		keys, err := m.store.KeyRequests(ctx, id, p)
		want(r, "requests by key", err, nil)
		same(r, "the requests by key of "+id+" at "+at.String(), keys, m.keyRequests(period))
	}
}

// keyRequests returns the requests by key of a period, without keys that have none.
func (m *machine) keyRequests(period counter) map[string]int64 {
	requests := map[string]int64{}
	for key, n := range m.byKey[period] {
		if n > 0 {
			requests[key] = n
		}
	}
	return requests
}

func (m *machine) checkKeys(r *rapid.T, id string) {
	var got, expected []quota.Key
	for k, err := range m.gate.Keys(context.Background(), id) {
		want(r, "listing keys", err, nil)
		got = append(got, k)
	}
	for _, k := range m.keys {
		if k.Account == id && !k.removed {
			expected = append(expected, k.Key)
		}
	}
	slices.SortFunc(expected, func(a, b quota.Key) int {
		if a.Declared != b.Declared {
			return map[bool]int{true: -1, false: 1}[a.Declared]
		}
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	same(r, "the keys of "+id, got, expected)
}
