// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// wireItem is a line of a file.
type wireItem struct {
	Seeded   bool             `json:"seeded,omitempty"`
	Owner    *wireOwner       `json:"owner,omitempty"`
	Feedback *feedback.Record `json:"feedback,omitempty"`
	Document *Document        `json:"document,omitempty"`
	Forget   *Forget          `json:"forget,omitempty"`
	End      *end             `json:"end,omitempty"`
}

type wireOwner struct {
	ID      string       `json:"id"`
	Account *wireAccount `json:"account,omitempty"`
	Keys    []wireKey    `json:"keys,omitempty"`
	Minutes []Count      `json:"minutes,omitempty"`
	Days    []Count      `json:"days,omitempty"`
	Periods []Period     `json:"periods,omitempty"`
	Bounds  []Bound      `json:"bounds,omitempty"`
}

// wireAccount is an account with what its JSON leaves out elsewhere.
type wireAccount struct {
	quota.Account
	Incarnation string `json:"incarnation,omitempty"`
}

// wireKey is a key with what its JSON leaves out elsewhere.
type wireKey struct {
	quota.Key
	Hash string `json:"hash"`
}

// encodeItem returns an item as a line.
func encodeItem(item Item) ([]byte, error) {
	w := wireItem{Seeded: item.Seeded, Feedback: item.Feedback, Document: item.Document, Forget: item.Forget}
	if o := item.Owner; o != nil {
		w.Owner = &wireOwner{
			ID: o.ID, Minutes: o.Minutes, Days: o.Days, Periods: o.Periods, Bounds: o.Bounds,
		}
		if o.Account != nil {
			w.Owner.Account = &wireAccount{*o.Account, o.Account.Incarnation}
		}
		for i := range o.Keys {
			w.Owner.Keys = append(w.Owner.Keys, wireKey{o.Keys[i], hex.EncodeToString(o.Keys[i].Hash[:])})
		}
	}
	return encode(w)
}

// item returns the item of a line.
func (w *wireItem) item() (item Item, err error) {
	item = Item{Seeded: w.Seeded, Feedback: w.Feedback, Document: w.Document, Forget: w.Forget}
	o := w.Owner
	if o == nil {
		return item, nil
	}
	item.Owner = &Owner{ID: o.ID, Minutes: o.Minutes, Days: o.Days, Periods: o.Periods, Bounds: o.Bounds}
	if o.Account != nil {
		account := o.Account.Account
		account.Incarnation = o.Account.Incarnation
		item.Owner.Account = &account
	}
	for _, k := range o.Keys {
		if n, err := hex.Decode(k.Key.Hash[:], []byte(k.Hash)); err != nil || n != len(k.Key.Hash) {
			return Item{}, errors.New("a key has no hash")
		}
		item.Owner.Keys = append(item.Owner.Keys, k.Key)
	}
	return item, nil
}

// encodeAccount, encodeKey and encodeRecord return what a digest is made of. For an account without an incarnation the
// time of its creation stands in, as it does in badger for one that was stored before there were incarnations.
func encodeAccount(a *quota.Account) ([]byte, error) {
	return encode(wireAccount{*a, cmp.Or(a.Incarnation, a.Created.Format(time.RFC3339Nano))})
}

func encodeKey(k *quota.Key) ([]byte, error) {
	return encode(wireKey{*k, hex.EncodeToString(k.Hash[:])})
}

func encodeRecord(r *feedback.Record) ([]byte, error) { return encode(r) }

// encode returns a value as a line of JSON. Characters are not escaped, so that a caller's JSON stays as it is.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}
