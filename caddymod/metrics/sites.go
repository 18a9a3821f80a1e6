// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of what is counted by guard and host. Clients write the names of hosts, so there may be any number.
const (
	maxHosts   = 100
	maxHost    = 253 // characters
	maxReasons = 32
)

// OtherHosts stands for the hosts for which a guard has no count of their own.
const OtherHosts = ""

// Site is where a guard stands, and what it does.
type Site struct {
	// Place tells guards of a configuration apart, and finds the counts of the same guard again after a reload.
	Place string
	// Server is the name of the server, and Hosts and Paths are what the routes around the guard match. All of them are
	// empty where they are not known.
	Server       string
	Hosts, Paths []string
	Direction    Direction
	Shadow       bool
}

// Guarded counts what a guard does, by host. A nil *Guarded counts nothing.
type Guarded struct {
	site   atomic.Pointer[Site]
	counts atomic.Pointer[hosts]
}

// hosts are the counts of a guard by host. They live longer than a configuration.
type hosts struct {
	since  time.Time
	users  int // under the lock of the sites
	mu     sync.RWMutex
	byName map[string]*hostCounts
}

// hostCounts are the counts of a host. The lock is held for nothing but a few additions.
type hostCounts struct {
	mu       sync.Mutex
	seen     int64
	outcomes map[GuardOutcome]int64
	flagged  map[string]int64
	errors   map[string]int64
}

// HostCounts is what a guard has done with the messages to a host.
type HostCounts struct {
	// Host is [OtherHosts] for all hosts that have no count of their own.
	Host     string
	Seen     int64
	Outcomes map[GuardOutcome]int64
	// Flagged are the messages in which something was flagged, by category, and Errors those that could not be judged,
	// by reason.
	Flagged, Errors map[string]int64
}

// Refused returns how many messages the guard did not let pass.
func (h *HostCounts) Refused() int64 {
	return h.Outcomes[GuardReject] + h.Outcomes[GuardTooLarge] + h.Outcomes[GuardErrorRefused]
}

// Review returns how many messages were marked for review.
func (h *HostCounts) Review() int64 { return h.Outcomes[GuardReview] }

// ShadowReject returns how many messages the guard would have refused if it were not in shadow mode.
func (h *HostCounts) ShadowReject() int64 { return h.Outcomes[GuardShadowReject] }

// ShadowReview returns how many messages the guard would have marked for review if it were not in shadow mode.
func (h *HostCounts) ShadowReview() int64 { return h.Outcomes[GuardShadowReview] }

// add adds the counts of another host.
func (h *HostCounts) add(other *HostCounts) {
	h.Seen += other.Seen
	for to, from := range map[*map[string]int64]map[string]int64{&h.Flagged: other.Flagged, &h.Errors: other.Errors} {
		for name, n := range from {
			(*to)[name] += n
		}
	}
	for outcome, n := range other.Outcomes {
		h.Outcomes[outcome] += n
	}
}

// SiteCounts is what a guard has done since it is configured.
type SiteCounts struct {
	Site
	Since time.Time
	Total HostCounts
	// Hosts are sorted by how much was seen of them, the most first; [OtherHosts] is last.
	Hosts []HostCounts
}

// Sites are the counts of guards that any configuration has, by place.
type Sites struct {
	mu      sync.Mutex
	byPlace map[string]*hosts
}

// newHosts returns counts that begin now.
func newHosts() *hosts { return &hosts{since: time.Now().UTC(), byName: map[string]*hostCounts{}} }

// NewGuarded returns the counts of a guard whose place is not known yet.
func NewGuarded() *Guarded {
	g := new(Guarded)
	g.counts.Store(newHosts())
	return g
}

// Join gives a guard its place. It goes on from the counts of the guard that has the place in another configuration.
// Each Join must be followed by one [Sites.Leave].
func (s *Sites) Join(g *Guarded, site Site) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := g.counts.Load()
	counts, ok := s.byPlace[site.Place]
	if !ok {
		counts = own
		if s.byPlace == nil {
			s.byPlace = map[string]*hosts{}
		}
		s.byPlace[site.Place] = counts
	}
	counts.users++
	// What the routes name has a count of its own, however many others clients name.
	for _, name := range site.Hosts {
		if host := hostOf(name); host != OtherHosts && !strings.Contains(host, "*") {
			counts.of(host)
		}
	}
	g.site.Store(&site)
	g.counts.Store(counts)
}

// Leave ends what [Sites.Join] began. The counts go with the last configuration that has the guard.
func (s *Sites) Leave(g *Guarded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	site := g.site.Load()
	if site == nil {
		return
	}
	counts := s.byPlace[site.Place]
	if counts == nil {
		return
	}
	if counts.users--; counts.users <= 0 {
		delete(s.byPlace, site.Place)
	}
}

// hostOf returns a host as it is counted: in lower case, without a port, and [OtherHosts] for what is no name.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if len(host) > maxHost || strings.ContainsFunc(host, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("-._:[]*", r)
	}) {
		return OtherHosts
	}
	return host
}

// of returns the counts of a host, which may be those of all others.
func (h *hosts) of(host string) *hostCounts {
	h.mu.RLock()
	counts := h.byName[host]
	h.mu.RUnlock()
	if counts != nil {
		return counts
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if counts = h.byName[host]; counts == nil && len(h.byName) >= maxHosts {
		host = OtherHosts
		counts = h.byName[host]
	}
	if counts == nil {
		counts = &hostCounts{
			outcomes: map[GuardOutcome]int64{}, flagged: map[string]int64{}, errors: map[string]int64{},
		}
		h.byName[host] = counts
	}
	return counts
}

// Count counts a message to a host.
func (g *Guarded) Count(host string, outcome GuardOutcome, flagged []string) {
	if g == nil {
		return
	}
	counts := g.counts.Load().of(hostOf(host))
	counts.mu.Lock()
	defer counts.mu.Unlock()
	counts.seen++
	counts.outcomes[outcome]++
	for _, category := range flagged {
		counts.flagged[category]++
	}
}

// Error counts a message to a host that could not be judged. The reason is one of a few words.
func (g *Guarded) Error(host, reason string) {
	if g == nil {
		return
	}
	counts := g.counts.Load().of(hostOf(host))
	counts.mu.Lock()
	defer counts.mu.Unlock()
	if _, known := counts.errors[reason]; known || len(counts.errors) < maxReasons {
		counts.errors[reason]++
	}
}

// Counts returns where the guard stands and what it has done. ok is false before it has a place.
func (g *Guarded) Counts() (counted SiteCounts, ok bool) {
	site := g.site.Load()
	if site == nil {
		return counted, false
	}
	all := g.counts.Load()
	counted = SiteCounts{Site: *site, Since: all.since}
	counted.Total = HostCounts{
		Outcomes: map[GuardOutcome]int64{}, Flagged: map[string]int64{}, Errors: map[string]int64{},
	}
	all.mu.RLock()
	defer all.mu.RUnlock()
	for name, host := range all.byName {
		host.mu.Lock()
		one := HostCounts{
			Host: name, Seen: host.seen, Outcomes: maps.Clone(host.outcomes),
			Flagged: maps.Clone(host.flagged), Errors: maps.Clone(host.errors),
		}
		host.mu.Unlock()
		counted.Total.add(&one)
		counted.Hosts = append(counted.Hosts, one)
	}
	slices.SortFunc(counted.Hosts, func(a, b HostCounts) int {
		switch {
		case a.Host == OtherHosts:
			return 1
		case b.Host == OtherHosts:
			return -1
		}
		return cmp.Or(cmp.Compare(b.Seen, a.Seen), cmp.Compare(a.Host, b.Host))
	})
	return counted, true
}
