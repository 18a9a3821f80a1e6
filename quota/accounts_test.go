// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"context"
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

func TestDefaultsOfAccounts(t *testing.T) {
	t.Parallel()
	h := newGate(t, quota.Options{})
	a, err := h.Account(context.Background(), "a")
	must(t, err)
	want := quota.Account{ID: "a", Tier: "free", Status: quota.Active, Created: start, Updated: start,
		Incarnation: a.Incarnation}
	if !reflect.DeepEqual(a, want) || len(a.Incarnation) != 16 {
		t.Fatalf("account is %+v, want %+v", a, want)
	}
	h.clock.Advance(time.Minute)
	a, err = h.UpdateAccount(context.Background(), "a", quota.AccountChange{Name: ptr("A")})
	must(t, err)
	if !a.Created.Equal(start) || !a.Updated.Equal(start.Add(time.Minute)) || a.Updated.Location() != time.UTC {
		t.Fatalf("created %s, updated %s", a.Created, a.Updated)
	}
}

func TestRulesOfAccounts(t *testing.T) {
	t.Parallel()
	h := newGate(t, quota.Options{})
	for name, test := range map[string]struct {
		account quota.Account
		says    string // nothing when it is valid
	}{
		"short id":             {account: quota.Account{ID: "0"}},
		"long id":              {account: quota.Account{ID: "A.b_c-" + strings.Repeat("x", 58)}},
		"no id":                {quota.Account{}, "id must be 1 to 64 characters long"},
		"too long id":          {quota.Account{ID: strings.Repeat("x", 65)}, "id must be 1 to 64"},
		"id with a slash":      {quota.Account{ID: "x/y"}, "id may contain"},
		"id with a zero byte":  {quota.Account{ID: "x\x00y"}, "id may contain"},
		"id with a dot first":  {quota.Account{ID: ".x"}, "begin with a letter or a digit"},
		"id that is not ASCII": {quota.Account{ID: "ä"}, "id may contain"},
		"long name":            {account: quota.Account{ID: "n1", Name: strings.Repeat("ä", 200)}},
		"too long name":        {quota.Account{ID: "n2", Name: strings.Repeat("a", 201)}, "name must be at most 200 characters long"},
		"name with a newline":  {quota.Account{ID: "n3", Name: "a\nb"}, "name must not contain control characters"},
		"broken name":          {quota.Account{ID: "n4", Name: "\xff"}, "name must be valid UTF-8"},
		"other status":         {account: quota.Account{ID: "s1", Status: "incomplete_expired"}},
		"status of two words":  {quota.Account{ID: "s2", Status: "past due"}, "active, trialing, past_due, canceled or paused"},
		"long status":          {quota.Account{ID: "s3", Status: quota.Status(strings.Repeat("x", 33))}, "status must be a word"},
		"unknown tier":         {quota.Account{ID: "t1", Tier: "gold"}, `tier "gold" is not configured; configured are business, free, growth, starter`},
		"last anchor":          {account: quota.Account{ID: "d1", AnchorDay: 31}},
		"anchor too late":      {quota.Account{ID: "d2", AnchorDay: 32}, "anchor_day must be 1 to 31, or 0"},
		"anchor too early":     {quota.Account{ID: "d3", AnchorDay: -1}, "anchor_day"},
		"negative month":       {quota.Account{ID: "o1", Overrides: quota.Overrides{RequestsPerMonth: ptr(int64(-1))}}, "overrides.requests_per_month"},
		"negative minute":      {quota.Account{ID: "o2", Overrides: quota.Overrides{RequestsPerMinute: ptr(int64(-1))}}, "overrides.requests_per_minute"},
		"threshold":            {account: quota.Account{ID: "o3", Overrides: quota.Overrides{Thresholds: map[string]float64{"hate": 0.001}}}},
		"threshold of 0":       {quota.Account{ID: "o4", Overrides: quota.Overrides{Thresholds: map[string]float64{"hate": 0}}}, "overrides.thresholds.hate must be greater than 0 and less than 1"},
		"a share of 0":         {quota.Account{ID: "o9", Overrides: quota.Overrides{HarmShare: new(float64)}}, "overrides.harm_share must be greater than 0 and less than 1"},
		"threshold of 1":       {quota.Account{ID: "o5", Overrides: quota.Overrides{Thresholds: map[string]float64{"hate": 1}}}, "overrides.thresholds.hate"},
		"threshold of nothing": {quota.Account{ID: "o6", Overrides: quota.Overrides{Thresholds: map[string]float64{"": 0.5}}}, "category name"},
		"no number":            {quota.Account{ID: "o7", Overrides: quota.Overrides{Thresholds: map[string]float64{"hate": math.NaN()}}}, "overrides.thresholds.hate"},
		"most words": {account: quota.Account{ID: "w1", Overrides: quota.Overrides{
			Block: many(quota.MaxExpressions), Allow: many(quota.MaxExpressions), Languages: many(20), OtherLanguage: "reject",
		}}},
		"too many words":       {quota.Account{ID: "w2", Overrides: quota.Overrides{Block: many(quota.MaxExpressions + 1)}}, "overrides.block may have at most 1000"},
		"too many languages":   {quota.Account{ID: "w3", Overrides: quota.Overrides{Languages: many(21)}}, "overrides.languages may have at most 20"},
		"an empty word":        {quota.Account{ID: "w4", Overrides: quota.Overrides{Allow: []string{"a", " "}}}, "overrides.allow: entry 2 is empty"},
		"a long word":          {quota.Account{ID: "w5", Overrides: quota.Overrides{Block: []string{strings.Repeat("ä", 101)}}}, "overrides.block: entry 1 must be at most 100"},
		"a broken word":        {quota.Account{ID: "w6", Overrides: quota.Overrides{Block: []string{"\xff"}}}, "must be valid UTF-8"},
		"words that are large": {quota.Account{ID: "w7", Overrides: quota.Overrides{Block: large(500), Allow: large(200)}}, "at most 65536 bytes together"},
		"no such action":       {quota.Account{ID: "w8", Overrides: quota.Overrides{Languages: []string{"en"}, OtherLanguage: "perhaps"}}, "overrides.other_language must be pass, review or reject"},
		"no language":          {quota.Account{ID: "w9", Overrides: quota.Overrides{OtherLanguage: "review"}}, "overrides.other_language needs languages"},
		"taken":                {quota.Account{ID: "a"}, "account a: already exists"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := h.CreateAccount(context.Background(), test.account)
			switch {
			case test.says == "":
				must(t, err)
			case name == "taken":
				wantErr(t, err, quota.ErrExists, test.says)
			default:
				wantErr(t, err, quota.ErrInvalid, test.says)
			}
		})
	}
}

// many returns short words, and large returns long ones of 100 bytes.
func many(n int) []string { return slices.Repeat([]string{"a"}, n) }

func large(n int) []string { return slices.Repeat([]string{strings.Repeat("a", 100)}, n) }

// TestChangeOverrides guards against changes of two people at once of which one is lost, and against a declared account
// that is changed.
func TestChangeOverrides(t *testing.T) {
	t.Parallel()
	h := newGate(t, quota.Options{})
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			_, err := h.ChangeOverrides(context.Background(), "a", func(o *quota.Overrides) {
				o.Block = append(slices.Clone(o.Block), fmt.Sprint("word", i))
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	a, err := h.Account(context.Background(), "a")
	must(t, err)
	if len(a.Overrides.Block) != 20 {
		t.Errorf("got %v", a.Overrides.Block)
	}
	_, err = h.ChangeOverrides(context.Background(), "a", func(o *quota.Overrides) { o.Block = many(2000) })
	wantErr(t, err, quota.ErrInvalid, "at most 1000")
	_, err = h.ChangeOverrides(context.Background(), "nobody", func(*quota.Overrides) {})
	wantErr(t, err, quota.ErrNotFound, "")
}

func TestRulesOfKeys(t *testing.T) {
	t.Parallel()
	h := newGate(t, quota.Options{})
	for name, test := range map[string]struct {
		wanted quota.KeySpec
		is     error
		says   string
	}{
		"valid":                {wanted: quota.KeySpec{Account: "a", Name: strings.Repeat("n", 200), Environment: strings.Repeat("e", 64), Expires: ptr(start.Add(1))}},
		"of nobody":            {wanted: quota.KeySpec{Account: "b"}, is: quota.ErrNotFound},
		"too long name":        {quota.KeySpec{Account: "a", Name: strings.Repeat("n", 201)}, quota.ErrInvalid, "name must be at most 200"},
		"too long environment": {quota.KeySpec{Account: "a", Environment: strings.Repeat("n", 65)}, quota.ErrInvalid, "environment must be at most 64"},
		"expired":              {quota.KeySpec{Account: "a", Expires: ptr(start)}, quota.ErrInvalid, "expires must be in the future"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := h.CreateKey(context.Background(), test.wanted)
			if test.is == nil {
				must(t, err)
				return
			}
			wantErr(t, err, test.is, test.says)
		})
	}
}

const declaredSecret = "declared_key_of_some_other_form"

func declaredOptions() quota.Options {
	return quota.Options{
		Accounts: []quota.Account{{ID: "z", Tier: "growth"}, {ID: "d"}},
		Keys:     []quota.Key{{ID: "main", Account: "d", Hash: quota.HashKey(declaredSecret)}},
	}
}

func TestDeclaredAccountsAndKeys(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newGate(t, declaredOptions())
	who, err := h.Authenticate(ctx, declaredSecret)
	must(t, err)
	if who.Account.ID != "d" || !who.Account.Declared || who.Account.Status != quota.Active || who.Key.ID != "main" ||
		who.Limits.RequestsPerMonth != 1000 {
		t.Errorf("Authenticate with a declared key: got %+v, want the active account d, key main, 1000 a month", who)
	}
	_, err = h.CreateAccount(ctx, quota.Account{ID: "d"})
	wantErr(t, err, quota.ErrExists, "account d")
	_, err = h.UpdateAccount(ctx, "d", quota.AccountChange{Name: ptr("x")})
	wantErr(t, err, quota.ErrDeclared, "account d")
	wantErr(t, h.DeleteAccount(ctx, "d"), quota.ErrDeclared, "account d")
	_, err = h.RevokeKey(ctx, "main")
	wantErr(t, err, quota.ErrDeclared, "key main")
	_, err = h.RotateKey(ctx, "main", 0)
	wantErr(t, err, quota.ErrDeclared, "key main")

	// A declared account can have stored keys, which can be revoked.
	secret, key := h.key(t, "d")
	if _, err = h.Authenticate(ctx, secret); err != nil {
		t.Errorf("Authenticate: got the error %v, want none", err)
	}
	if k, err := h.Key(ctx, "main"); err != nil || !k.Declared {
		t.Errorf("Key: got %+v, %v; want a declared key", k, err)
	}
	var ids []string
	for _, k := range collect(t, h.Keys(ctx, "d")) {
		ids = append(ids, k.ID)
	}
	if want := []string{"main", key.ID}; !reflect.DeepEqual(ids, want) {
		t.Errorf("keys are %v, want %v", ids, want)
	}
	ids = nil
	for _, a := range collect(t, h.Accounts(ctx)) {
		ids = append(ids, a.ID)
	}
	if want := []string{"a", "d", "z"}; !reflect.DeepEqual(ids, want) {
		t.Errorf("accounts are %v, want %v", ids, want)
	}
	if stored := collect(t, h.store.Accounts(ctx)); len(stored) != 1 {
		t.Errorf("stored are %+v", stored)
	}
	for range h.Accounts(ctx) {
		break
	}
	for range h.Keys(ctx, "") {
		break
	}
}

// TestDeclaredHidesStored declares an account and a key that were stored before.
func TestDeclaredHidesStored(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newGate(t, quota.Options{})
	secret, key := h.key(t, "a")
	other, otherKey := h.key(t, "a")
	next, err := quota.New(quota.Options{
		Store:    h.store,
		Accounts: []quota.Account{{ID: "a", Status: quota.Paused}},
		Keys: []quota.Key{
			{ID: "mine", Account: "a", Hash: quota.HashKey(secret)},
			{ID: otherKey.ID, Account: "a", Hash: quota.HashKey(declaredSecret)},
		},
	})
	must(t, err)
	who, err := next.Authenticate(ctx, secret)
	wantErr(t, err, quota.ErrInactive, "paused")
	if who.Key.ID != "mine" {
		t.Errorf("the key is %+v", who.Key)
	}
	_, err = next.Authenticate(ctx, other)
	wantErr(t, err, quota.ErrUnauthorized)
	if accounts := collect(t, next.Accounts(ctx)); len(accounts) != 1 || !accounts[0].Declared {
		t.Errorf("accounts are %+v", accounts)
	}
	if keys := collect(t, next.Keys(ctx, "")); len(keys) != 2 || !keys[0].Declared || !keys[1].Declared {
		t.Errorf("keys are %+v, among them %s", keys, key.ID)
	}
}

func TestNewNamesEveryMistake(t *testing.T) {
	t.Parallel()
	hash := quota.HashKey(declaredSecret)
	for name, test := range map[string]struct {
		change func(*quota.Options)
		says   []string
	}{
		"no store":    {func(o *quota.Options) { o.Store = nil }, []string{"store"}},
		"prefix":      {func(o *quota.Options) { o.KeyPrefix = "my_keys" }, []string{"key prefix may contain only letters"}},
		"long prefix": {func(o *quota.Options) { o.KeyPrefix = strings.Repeat("x", 21) }, []string{"key prefix must be 1 to 20"}},
		"tier name":   {func(o *quota.Options) { o.Tiers = map[string]quota.Limits{"Gold tier": {}} }, []string{`tier "Gold tier"`}},
		"tier limit":  {func(o *quota.Options) { o.Tiers = map[string]quota.Limits{"free": {RequestsPerMonth: -1}} }, []string{`tier "free"`, "0 (unlimited)"}},
		"two mistakes": {func(o *quota.Options) {
			o.Accounts = []quota.Account{{ID: "x", Tier: "gold"}, {ID: "y", AnchorDay: 40}}
		}, []string{`account "x"`, `tier "gold"`, `account "y"`, "anchor_day"}},
		"account twice": {func(o *quota.Options) { o.Accounts = append(o.Accounts, quota.Account{ID: "d"}) }, []string{`account "d"`, "twice"}},
		"key twice": {func(o *quota.Options) {
			o.Keys = append(o.Keys, quota.Key{ID: "main", Account: "d", Hash: quota.Hash{1}})
		}, []string{`key "main"`, "twice"}},
		"same key":          {func(o *quota.Options) { o.Keys = append(o.Keys, quota.Key{ID: "other", Account: "d", Hash: hash}) }, []string{`key "other"`, `"main"`}},
		"key without key":   {func(o *quota.Options) { o.Keys = []quota.Key{{ID: "k", Account: "d"}} }, []string{`key "k"`, "hash"}},
		"key of nobody":     {func(o *quota.Options) { o.Keys = []quota.Key{{ID: "k", Hash: hash}} }, []string{`key "k"`, "account"}},
		"key without an id": {func(o *quota.Options) { o.Keys = []quota.Key{{Account: "d", Hash: hash}} }, []string{`key ""`, "id must be"}},
		"key's name":        {func(o *quota.Options) { o.Keys = []quota.Key{{ID: "k", Account: "d", Hash: hash, Name: "\n"}} }, []string{`key "k"`, "name"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := declaredOptions()
			o.Store = storagetest.NewMemory()
			test.change(&o)
			_, err := quota.New(o)
			wantErr(t, err, quota.ErrInvalid, test.says...)
			if err != nil && strings.Contains(err.Error(), declaredSecret) {
				t.Errorf("error %q tells a key", err)
			}
		})
	}
}

func TestDeclaredKeysHaveALength(t *testing.T) {
	t.Parallel()
	for key, valid := range map[string]bool{declaredSecret: true, strings.Repeat("k", 16): true,
		strings.Repeat("k", 256): true,
		strings.Repeat("k", 15):  false, strings.Repeat("k",
			257): false, "with a space in the middle": false, "": false} {
		err := quota.ValidateKey(key)
		if (err == nil) != valid {
			t.Errorf("key of %d characters: %v", len(key), err)
		}
		if err != nil && key != "" && strings.Contains(err.Error(), key) {
			t.Errorf("error %q tells the key", err)
		}
	}
}

// holed is a store in which one account and one key are damaged.
type holed struct{ *storagetest.Memory }

func (h holed) Accounts(ctx context.Context) iter.Seq2[quota.Account, error] {
	return withHole(h.Memory.Accounts(ctx))
}

func (h holed) Keys(ctx context.Context, account string) iter.Seq2[quota.Key, error] {
	return withHole(h.Memory.Keys(ctx, account))
}

// withHole yields an error in place of the first element.
func withHole[T any](all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		first := true
		for v, err := range all {
			if first {
				v, err, first = *new(T), fmt.Errorf("%w: the first", storage.ErrDamaged), false
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

// TestListingsGoOnBehindDamage: one damaged record hid all accounts, or keys, that come after it.
func TestListingsGoOnBehindDamage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := holed{storagetest.NewMemory()}
	g, err := quota.New(quota.Options{Store: store, Accounts: []quota.Account{{ID: "b"}},
		Keys: []quota.Key{{ID: "main", Account: "b", Hash: quota.HashKey("a key of some length")}}})
	must(t, err)
	for _, id := range []string{"a", "c"} {
		_, err := g.CreateAccount(ctx, quota.Account{ID: id})
		must(t, err)
		_, _, err = g.CreateKey(ctx, quota.KeySpec{Account: id})
		must(t, err)
	}
	var accounts, keys []string
	for a, err := range g.Accounts(ctx) {
		if err != nil {
			wantErr(t, err, storage.ErrDamaged)
			a.ID = "damaged"
		}
		accounts = append(accounts, a.ID)
	}
	for k, err := range g.Keys(ctx, "") {
		if err != nil {
			wantErr(t, err, storage.ErrDamaged)
			k.Account = "damaged"
		}
		keys = append(keys, k.Account)
	}
	if want := []string{"damaged", "b", "c"}; !slices.Equal(accounts, want) {
		t.Errorf("got the accounts %v, want %v", accounts, want)
	}
	if want := []string{"b", "damaged", "c"}; !slices.Equal(keys, want) {
		t.Errorf("got the keys of %v, want %v", keys, want)
	}
	for _, err := range g.Accounts(ctx) {
		wantErr(t, err, storage.ErrDamaged)
		break // a consumer that does not go on
	}
}
