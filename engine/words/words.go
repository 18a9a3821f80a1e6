// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package words finds the expressions of a list in texts, even where people disguise them.
//
// A list holds expressions of one or more words. An expression is found where its words follow each other with
// nothing but spaces, punctuation and other symbols between them. Words are those of package text and match as a
// whole: "ass" is not found in "class". Case, accents, look-alike letters, digits for letters (v1agra), invisible
// characters, spaced-out letters (v.i.a.g.r.a) and stretched ones (viiiagra) make no difference, neither in the text
// nor in the expression. An emoji is a word. In a script without spaces each letter is a word, so an expression is
// found inside longer words there. There are no wildcards: other forms of a word are expressions of their own.
//
// The time to search a text is linear in its length, whatever the text, and does not grow with the number of
// expressions.
package words

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// Bounds of a list.
const (
	// MaxExpressions is the maximum number of expressions that a list is made from, duplicates included.
	MaxExpressions = 100_000
	// MaxCharacters is the maximum length of an expression in code points, without the white space around it.
	MaxCharacters = 100
)

// List is a set of expressions. It is immutable and safe for concurrent use. A nil List has no expressions.
//
// A List is a trie whose edges are words. One map of all edges is smaller than a map for each node, and a lookup costs
// the same however many edges a node has.
type List struct {
	expressions []string
	words       []string            // by number: the words of the expressions, folded and as typed
	numbers     map[string]uint32   // the inverse of words
	collapsed   map[string][]uint32 // words by their form with repeated letters written once
	edges       map[edge]uint32
	nodes       []node // 0 is the root
	longest     int    // bytes of the longest word
}

// edge leads from a node to another one by a word.
type edge struct{ node, word uint32 }

// node is the state after some words.
type node struct {
	expression int32 // the expression that ends here, or none
	inner      bool  // whether edges leave this node
}

const none = -1

// Match is a place in a text where an expression was found.
type Match struct {
	// Begin and End are the byte offsets of the match; End is exclusive. Both lie between code points.
	Begin, End int
	// Expression is the expression as the list spells it, without the white space around it.
	Expression string
}

// Parse makes a list of expressions. Of several that fold to the same words the first one is kept. The error names, by
// its number from 1, the first expression that is empty, longer than [MaxCharacters], not UTF-8 or without a word.
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

// Merge makes one list of the expressions of several; nil lists are skipped. Of several expressions that fold to the
// same words the first one is kept.
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

// Len returns the number of distinct expressions. Those that fold to the same words count once.
func (l *List) Len() int {
	if l == nil {
		return 0
	}
	return len(l.expressions)
}

// Expressions returns the expressions of the list as they were written, in their order.
func (l *List) Expressions() []string {
	if l == nil {
		return nil
	}
	return slices.Clone(l.expressions)
}

func newList() *List {
	return &List{
		numbers:   make(map[string]uint32),
		collapsed: make(map[string][]uint32),
		edges:     make(map[edge]uint32),
		nodes:     []node{{expression: none}},
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

// insert adds an expression unless it has no words, and reports whether it has any.
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
	// How a word of look-alike letters folds depends on the text around it, so its typed form leads here, too.
	if raw := l.path(tokens, func(t *text.Token) []byte { return t.Raw }); l.nodes[raw].expression == none {
		l.nodes[raw].expression = number
	}
	return true
}

// path returns the node that tokens lead to in one of their forms. It adds the edges and nodes that are missing.
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

// number returns the number of a word, and assigns one to a new word.
func (l *List) number(word []byte) uint32 {
	n, ok := l.numbers[string(word)]
	if !ok {
		n = uint32(len(l.words))
		l.words = append(l.words, string(word))
		l.numbers[l.words[n]] = n
		form := string(appendCollapsed(nil, word))
		l.collapsed[form] = append(l.collapsed[form], n)
		l.longest = max(l.longest, len(word))
	}
	return n
}
