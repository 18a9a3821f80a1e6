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
// taken for one; the text itself is not kept. Each text has two places, and takes that of another one when neither is free. It
// is safe for concurrent use and takes no locks.
type recent struct {
	seeds [2]maphash.Seed
	slots [recentSlots]atomic.Pointer[remembered]
}

// recentSlots is how many texts are remembered. One takes a few hundred bytes.
const recentSlots = 8192

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
	for _, place := range hash {
		if known := c.slots[place%recentSlots].Load(); known != nil && known.hash == hash {
			return known.result, true
		}
	}
	return engine.Result{}, false
}

// keep remembers what was said about a text. The result must not change any more.
func (c *recent) keep(hash [2]uint64, result engine.Result) {
	place := &c.slots[hash[0]%recentSlots]
	if other := &c.slots[hash[1]%recentSlots]; place.Load() != nil && (other.Load() == nil || (hash[0]^hash[1])>>63 == 0) {
		place = other
	}
	place.Store(&remembered{hash, result})
}
