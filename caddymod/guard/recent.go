// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// recent remembers what the classifier said about the last few thousand texts. Much of what people post has just been
// posted: "thanks", a draft that is saved again, a form that is sent twice, and the same advertisement by a hundred bots.
//
// A text is known by 128 bits of hash under seeds that nobody else knows, so that nobody can make up two texts that are
// taken for one; the text itself is not kept. Each text belongs to one of many small sets, in which a new one takes the place
// of the one that has been there longest. It is safe for concurrent use and takes no locks.
type recent struct {
	seeds [2]maphash.Seed
	sets  [recentSets]recentSet
}

// How many texts are remembered: one takes a few hundred bytes.
const (
	recentSets = 1024
	recentWays = 8
)

// recentSet holds the texts whose hashes lead to it. Tags, which are parts of hashes, spare looks at texts that are others.
type recentSet struct {
	tags [recentWays]atomic.Uint32
	ways [recentWays]atomic.Pointer[remembered]
	next atomic.Uint32
}

type remembered struct {
	hash   [2]uint64
	result engine.Result
}

func newRecent() *recent {
	return &recent{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// hash is what a text is known by.
func (c *recent) hash(text string) [2]uint64 {
	return [2]uint64{maphash.String(c.seeds[0], text), maphash.String(c.seeds[1], text)}
}

// find returns what was said about a text.
func (c *recent) find(hash [2]uint64) (engine.Result, bool) {
	set, tag := &c.sets[hash[0]%recentSets], uint32(hash[1])
	for i := range set.tags {
		if set.tags[i].Load() != tag {
			continue
		}
		if known := set.ways[i].Load(); known != nil && known.hash == hash {
			return known.result, true
		}
	}
	return engine.Result{}, false
}

// keep remembers what was said about a text. The result must not change any more.
func (c *recent) keep(hash [2]uint64, result engine.Result) {
	set := &c.sets[hash[0]%recentSets]
	i := (set.next.Add(1) - 1) % recentWays
	// A reader that sees one of the two stores finds nothing, or the text that was there before: hashes are compared whole.
	set.ways[i].Store(&remembered{hash, result})
	set.tags[i].Store(uint32(hash[1]))
}
