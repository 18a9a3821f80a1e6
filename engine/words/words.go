// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package words finds the words of a list in texts, seeing through what people do to hide words.
//
// A list holds expressions, each of one or several words. An expression is found where its words stand in a row with
// nothing but spaces, punctuation and other symbols between them. Words are those of package text and match as a whole:
// "ass" is not found in "class". Case, accents, look-alike letters, digits for letters (v1agra), invisible characters,
// spaced-out letters (v.i.a.g.r.a) and stretched ones (viiiagra) make no difference, neither in the text nor in the
// expression. An emoji is a word; so is each letter of a script without spaces, where an expression hence is found inside
// longer words. There are no wildcards: other forms of a word are expressions of their own.
//
// The time to search a text is linear in its length whatever it is, and does not grow with the number of expressions.
package words

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// Bounds of a list.
const (
	// MaxExpressions is the number of expressions that a list can be read from, equal ones included.
	MaxExpressions = 100_000
	// MaxCharacters is the length of an expression in code points, without the white space around it.
	MaxCharacters = 100
)

// List is a set of expressions. It is immutable and safe for concurrent use. A nil List has no expressions.
//
// It is a trie, whose edges are words. A map of all edges is smaller than a map for each node, and a probe of it costs
// the same however many edges a node has.
type List struct {
	expressions []string
	words       []string          // by number; those of the expressions as they are read and as they are typed
	numbers     map[string]uint32 // the inverse of words
	singled     map[string][]uint32
	edges       map[edge]uint32
	nodes       []node // 0 is the root
	longest     int    // bytes of the longest of words
}

// edge leads from a node on to another one by a word.
type edge struct{ node, word uint32 }

// node is a place in the trie: some words have been read.
type node struct {
	expression int32 // that ends here, none if negative
	inner      bool  // edges lead on
}

const none = -1

// Match is a place where an expression stands.
type Match struct {
	// Begin and End are the place in bytes of the text; End is exclusive. Both lie between code points.
	Begin, End int
	// Expression is the expression as the list has it, without the white space around it.
	Expression string
}

// Parse makes a list of expressions. Of those that read the same the first counts. The error names by its number, from 1
// on, the first expression that is empty, too long, not UTF-8 or without a word.
func Parse(expressions []string) (*List, error) {
	if len(expressions) > MaxExpressions {
		return nil, fmt.Errorf("%d expressions, at most %d are possible", len(expressions), MaxExpressions)
	}
	l := newList()
	for i, e := range expressions {
		if err := l.add(e); err != nil {
			return nil, fmt.Errorf("expression %d %w", i+1, err)
		}
	}
	return l, nil
}

// Merge makes a list of all expressions of lists. Of those that read the same the first counts.
func Merge(lists ...*List) *List {
	merged := newList()
	for _, l := range lists {
		if l == nil {
			continue
		}
		for _, e := range l.expressions {
			merged.insert(e)
		}
	}
	return merged
}

// Len returns the number of expressions that read differently.
func (l *List) Len() int {
	if l == nil {
		return 0
	}
	return len(l.expressions)
}

func newList() *List {
	return &List{
		numbers: make(map[string]uint32), singled: make(map[string][]uint32), edges: make(map[edge]uint32),
		nodes: []node{{expression: none}},
	}
}

// add checks an expression and inserts it.
func (l *List) add(expression string) error {
	expression = strings.TrimSpace(expression)
	switch {
	case expression == "":
		return errors.New("is empty")
	case !utf8.ValidString(expression):
		return errors.New("is not UTF-8")
	case utf8.RuneCountInString(expression) > MaxCharacters:
		return fmt.Errorf("is longer than %d characters", MaxCharacters)
	case !l.insert(expression):
		return errors.New("has no letter, digit or emoji")
	}
	return nil
}

// insert adds an expression, where it has words.
func (l *List) insert(expression string) bool {
	scratch := text.Get()
	defer text.Put(scratch)
	tokens := scratch.Tokenize(expression)
	if len(tokens) == 0 {
		return false
	}
	folded := l.path(tokens, func(t *text.Token) []byte { return t.Folded })
	if l.nodes[folded].expression != none {
		return true
	}
	number := int32(len(l.expressions))
	l.expressions = append(l.expressions, expression)
	l.nodes[folded].expression = number
	// What a word of look-alikes reads as depends on the text around it, so that it has to be known as it is typed, too.
	if raw := l.path(tokens, func(t *text.Token) []byte { return t.Raw }); l.nodes[raw].expression == none {
		l.nodes[raw].expression = number
	}
	return true
}

// path returns the node that tokens lead to, in one of their forms. It makes what is missing.
func (l *List) path(tokens []text.Token, form func(*text.Token) []byte) uint32 {
	at := uint32(0)
	for i := range tokens {
		e := edge{at, l.number(form(&tokens[i]))}
		next, ok := l.edges[e]
		if !ok {
			next = uint32(len(l.nodes))
			l.nodes = append(l.nodes, node{expression: none})
			l.nodes[at].inner = true
			l.edges[e] = next
		}
		at = next
	}
	return at
}

// number returns the number of a word, a new one if need be.
func (l *List) number(word []byte) uint32 {
	n, ok := l.numbers[string(word)]
	if !ok {
		n = uint32(len(l.words))
		l.words = append(l.words, string(word))
		l.numbers[l.words[n]] = n
		single := string(appendSingled(nil, word))
		l.singled[single] = append(l.singled[single], n)
		l.longest = max(l.longest, len(word))
	}
	return n
}
