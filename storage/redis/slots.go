// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"strconv"
	"strings"
)

const (
	// clusterSlots is the number of slots of a cluster.
	clusterSlots = 16384
	// clusterParts is in how many parts of neighboring slots the breaker divides them. A master mostly has whole parts.
	clusterParts = 64
)

// partsOf returns how many parts the breaker has.
func partsOf(t Topology) int {
	if t == Cluster {
		return clusterParts
	}
	return 1
}

// partOf returns the part with the slot of an account's records.
func partOf(account string, parts int) int {
	return slot("a:"+account) * parts / clusterSlots
}

// slot returns the slot of what a name has in braces: its CRC-16 (XMODEM).
func slot(braced string) int {
	crc := uint16(0)
	for i := range len(braced) {
		crc ^= uint16(braced[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % clusterSlots
}

// slotOfName returns the slot of a name: that of what it has in braces, if anything.
func slotOfName(name string) int {
	if _, rest, ok := strings.Cut(name, "{"); ok {
		if braced, _, ok := strings.Cut(rest, "}"); ok && braced != "" {
			name = braced
		}
	}
	return slot(name)
}

// probes returns a name in each part.
func probes(n names, parts int) []string {
	names := make([]string, parts)
	for i, found := 0, 0; found < parts; i++ {
		text := strconv.Itoa(i)
		if at := slot(text) * parts / clusterSlots; names[at] == "" {
			names[at] = n.prefix + "breaker:{" + text + "}"
			found++
		}
	}
	return names
}
