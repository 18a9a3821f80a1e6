// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"slices"
	"strings"
)

// node is a place in a stream. All elements of an array are one place, and so are members whose names are numbers.
type node struct {
	name     string
	children []*node
	places   []*place // known places that it leads to, is, or is within
	depth    int
	meaning  meaning
	protocol protocol
	hold     holdMode
	branch   bool // within an alternative
	certain  bool // holds fragments of a text in every stream
	// first is the first variant of the text here. mixed says that there are others.
	first variant
	begun bool
	mixed bool
}

// variant tells texts at the same place apart: by the alternative and by the type of the event.
type variant struct {
	choice int
	typ    string
}

// Limits of what is remembered of a stream.
const (
	maxNodes = 1024
	maxName  = 64 // bytes
)

// tree has the places that a stream has shown.
type tree struct {
	root, rest *node // rest stands for all places beyond maxNodes
	raw        *node // the text of events that are too large to be parsed
	count      int
	// nodes and places are memory that is not used yet.
	nodes  []node
	places []*place
	named  bool // only the places of Options.Delta are extracted
}

func newTree(o *Options) *tree {
	t := &tree{named: len(o.Delta) > 0, places: make([]*place, 0, 128)}
	t.root, t.rest, t.raw = &node{hold: holdText}, new(node), &node{hold: holdText}
	if t.root.places = knownPlaces; t.named {
		t.root.places = pointersTo(structurePlaces())
	}
	for _, parts := range o.Delta[:min(len(o.Delta), MaxDelta)] {
		t.root.places = append(t.root.places, &place{parts: parts, meaning: isText, text: &node{hold: holdText}})
	}
	t.root.resolve()
	return t
}

// resolve derives the meaning of a node from its places.
func (n *node) resolve() {
	for _, way := range n.places {
		switch {
		case len(way.parts) == n.depth:
			n.meaning |= way.meaning
			if way.protocol != unknownProtocol {
				n.protocol = way.protocol
			}
		case len(way.parts) < n.depth:
			n.meaning |= way.meaning & inherited
		}
	}
	if n.meaning&isKept != 0 {
		n.meaning &^= isUsual
		n.places = slices.DeleteFunc(slices.Clone(n.places), func(way *place) bool {
			return len(way.parts) <= n.depth && way.meaning&isUsual != 0
		})
	}
}

// child returns a member or an element of a node.
func (t *tree) child(n *node, name string) *node {
	for _, child := range n.children {
		if child.name == name {
			return child
		}
	}
	if n == t.rest {
		return n
	}
	if len(t.nodes) == 0 {
		t.nodes = make([]node, 16)
	}
	child := &t.nodes[0]
	t.nodes = t.nodes[1:]
	*child = node{depth: n.depth + 1, hold: holdModeOf(name), branch: n.branch ||
		n.meaning&isBranch != 0, certain: holdsFragments(name)}
	first := len(t.places)
	if name == "*" && n != t.root {
		child.hold, child.certain = n.hold, n.certain
	}
	for _, way := range n.places {
		if n.depth >= len(way.parts) && way.meaning&inherited != 0 || n.depth < len(way.parts) &&
			(way.parts[n.depth] == "*" || way.parts[n.depth] == name) {
			t.places = append(t.places, way)
		}
	}
	child.places = t.places[first:len(t.places):len(t.places)]
	switch {
	case t.count < maxNodes:
		t.count++
		child.name = strings.Clone(name)
		n.children = append(n.children, child)
	case !t.named:
		return t.rest
	}
	child.resolve()
	return child
}

// memberOf returns the name by which a member is remembered.
func (t *tree) memberOf(name string) string {
	if t.named {
		return name
	}
	digits := 0
	for _, c := range []byte(name) {
		if c >= '0' && c <= '9' {
			digits++
		}
	}
	// Numbers and identifiers differ from event to event.
	if digits > 0 && digits == len(name) || digits >= 3 && len(name) >= 16 || len(name) > maxName {
		return "*"
	}
	return name
}
