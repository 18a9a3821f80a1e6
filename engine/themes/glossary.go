// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package themes

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
	"github.com/caddy-moderation/caddy-moderation/engine/themes/lexicon"
)

//go:embed glossaries.bin
var glossariesFile []byte

// Glossary holds an English word for each of the frequent words of another language. By way of it, the lexicon, which
// is English, finds themes in text of the language. It knows one meaning of a word and no grammar.
type Glossary struct {
	english map[string][]byte // by folded word
}

// glossaries are the embedded glossaries by the BCP 47 tags of their languages. They are unpacked when they are first
// needed: some 30,000 words, 10 MB, 30 ms.
var glossaries = sync.OnceValue(func() map[string]*Glossary {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	defer decoder.Close()
	file, err := decoder.DecodeAll(glossariesFile, nil)
	if err != nil {
		panic(fmt.Sprintf("glossaries.bin: %v", err)) // the tests of this package read it
	}
	scratch := text.Get()
	defer text.Put(scratch)
	all := map[string]*Glossary{}
	var g *Glossary
	for line := range strings.Lines(string(file)) {
		line = strings.TrimSpace(line)
		if tag, ok := strings.CutPrefix(line, "="); ok {
			g = &Glossary{english: make(map[string][]byte, 8192)}
			all[tag] = g
			continue
		}
		word, english, _ := strings.Cut(line, " ")
		tokens := scratch.Tokenize(word)
		if len(tokens) != 1 {
			continue
		}
		if _, known := g.english[string(tokens[0].Folded)]; !known { // the most frequent form comes first
			g.english[string(tokens[0].Folded)] = []byte(english)
		}
	}
	return all
})

// GlossaryLanguages returns the BCP 47 tags of the languages that there are glossaries for.
func GlossaryLanguages() []string {
	var tags []string
	for tag := range glossaries() {
		tags = append(tags, tag)
	}
	slices.Sort(tags)
	return tags
}

// GlossaryOf returns the glossary of a language by its BCP 47 tag, or nil if there is none.
func GlossaryOf(tag string) *Glossary { return glossaries()[tag] }

// Words replaces the words of a text that the glossary knows by their English words. The places of the tokens stay.
func (g *Glossary) Words(tokens []text.Token) []text.Token {
	for i := range tokens {
		if english, ok := g.english[string(tokens[i].Folded)]; ok {
			tokens[i].Folded = english
		}
	}
	return tokens
}

// Theme returns a theme in the language in English words. It returns "" for one that is English already, or of which
// less than half of the words are known.
func (g *Glossary) Theme(theme string) string {
	scratch := text.Get()
	defer text.Put(scratch)
	known, total, foreign := 0, 0, false
	lex := embeddedLexicon()
	var terms []lexicon.Term
	var words []string
	for _, t := range scratch.Tokenize(theme) {
		total++
		if terms = lex.Bases(t.Folded, terms[:0]); len(terms) == 0 {
			foreign = true
		}
		english, ok := g.english[string(t.Folded)]
		if !ok {
			words = append(words, string(t.Folded))
			continue
		}
		known++
		words = append(words, strings.ReplaceAll(string(english), "_", " "))
	}
	if !foreign || 2*known < total {
		return ""
	}
	return strings.Join(words, " ")
}
