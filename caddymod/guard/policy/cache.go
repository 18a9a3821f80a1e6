// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// cache keeps the results of the last few thousand texts. Many posts repeat a recent one: "thanks", a draft that is
// saved again, a form that is sent twice, and the same advertisement by a hundred bots.
//
// A text is identified by 128 bits of hash with random seeds, so that no two texts can be made up that share a result.
// The text itself is not kept. Each hash leads to one of many small sets, in which a new entry takes the place of the
// oldest. The cache is safe for concurrent use and takes no locks.
type cache struct {
	seeds [2]maphash.Seed
	sets  [cacheSets]cacheSet
}

// How many texts are remembered: sets times ways. An entry takes a few hundred bytes.
const (
	cacheSets = 1024
	cacheWays = 8
)

// cacheSet holds the entries whose hashes lead to it. A tag is a part of the hash, and spares looks at other entries.
type cacheSet struct {
	tags [cacheWays]atomic.Uint32
	ways [cacheWays]atomic.Pointer[cacheEntry]
	next atomic.Uint32
}

type cacheEntry struct {
	hash   [2]uint64
	result engine.Result
}

func newCache() *cache {
	return &cache{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// hash returns the hash that identifies a text.
func (c *cache) hash(text string) [2]uint64 {
	return [2]uint64{maphash.String(c.seeds[0], text), maphash.String(c.seeds[1], text)}
}

// get returns the result of a text, if it is known.
func (c *cache) get(hash [2]uint64) (engine.Result, bool) {
	set, tag := &c.sets[hash[0]%cacheSets], uint32(hash[1])
	for i := range set.tags {
		if set.tags[i].Load() != tag {
			continue
		}
		if entry := set.ways[i].Load(); entry != nil && entry.hash == hash {
			return entry.result, true
		}
	}
	return engine.Result{}, false
}

// set keeps the result of a text. The result must not change afterwards.
func (c *cache) set(hash [2]uint64, result engine.Result) {
	set := &c.sets[hash[0]%cacheSets]
	i := (set.next.Add(1) - 1) % cacheWays
	// A get that sees one of the two stores finds nothing, or the entry that was there before: hashes are compared
	// whole.
	set.ways[i].Store(&cacheEntry{hash, result})
	set.tags[i].Store(uint32(hash[1]))
}
