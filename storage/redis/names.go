// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"encoding/hex"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/quota"
)

// names makes the names of records; see [schema].
type names struct{ prefix string }

func newNames(prefix string) names { return names{prefix + ":"} }

// shards is how many parts the set of ids has, and how many marks show that a master was emptied.
const shards = 64

func (n names) store() string { return n.prefix + "store" }

func (n names) mark(i int) string { return n.prefix + "store:{" + strconv.Itoa(i) + "}" }

// hold is why nothing may be changed while everything is moved.
func (n names) hold() string { return n.prefix + "hold" }

func (n names) probe() string { return n.prefix + "probe:permissions" }

func (n names) nodes() string { return n.prefix + "nodes" }

// ids names the part of the set of ids that has an id.
func (n names) ids(id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return n.shard(int(h.Sum32() % shards))
}

func (n names) shard(i int) string { return n.prefix + "ids:{" + strconv.Itoa(i) + "}" }

func (n names) key(hash quota.Hash) string { return n.prefix + "key:" + hex.EncodeToString(hash[:]) }

// hash returns the hash in the name of a key.
func (n names) hash(name string) (hash quota.Hash, err error) {
	b, err := hex.DecodeString(strings.TrimPrefix(name, n.prefix+"key:"))
	if err != nil || len(b) != len(hash) {
		return hash, errDamaged
	}
	return quota.Hash(b), nil
}

func (n names) keyID(id string) string { return n.prefix + "keyid:" + id }

// The tables of an account.
const (
	accountTable = "account"
	keysTable    = "keys"
	usedTable    = "used"
	countsTable  = "counts"
	detailsTable = "details"
	boundsTable  = "bounds"
	callsTable   = "calls"
)

// of names a table of an account. All of them are in one slot.
func (n names) of(account, table string) string { return n.prefix + "{a:" + account + "}:" + table }

// account returns the id in the name of an account.
func (n names) account(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, n.prefix+"{a:"), "}:"+accountTable)
}

func (n names) feedbackDays() string { return n.prefix + "feedback" }

func (n names) feedbackOrder(day int64) string { return n.feedbackOf(day) + "order" }

func (n names) feedbackRecords(day int64) string { return n.feedbackOf(day) + "records" }

func (n names) feedbackOf(day int64) string {
	return n.prefix + "{f:" + strconv.FormatInt(day, 10) + "}:"
}
