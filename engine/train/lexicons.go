// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// lexicons are lists of bad words: how profane a word is, and whether it is sexual or a slur.
type lexicons struct {
	terms map[string]term
}

// term is a word of such a list.
type term struct {
	severity      float64 // 1 to 3
	sexual, slur  bool
	otherLanguage bool
}

func readLexicons(data fs.FS) (*lexicons, error) {
	l := &lexicons{terms: map[string]term{}}
	err := lines(data, "moderation/lexicon_surge_profanity.jsonl.gz", func(r row) {
		l.terms[strings.ToLower(r.Text)] = term{
			severity: r.Labels["severity_rating"],
			sexual:   r.Labels.any("category:sexual anatomy"),
			slur:     r.Labels.any("category:racial") || r.Labels.any("category:sexual orientation"),
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading a lexicon: %w", err)
	}
	err = lines(data, "moderation/lexicon_ldnoobw.jsonl.gz", func(r row) {
		word := strings.ToLower(r.Text)
		if _, ok := l.terms[word]; !ok {
			l.terms[word] = term{severity: 1.5, otherLanguage: !r.Labels.any("lang:en")}
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading a lexicon: %w", err)
	}
	return l, nil
}

// profaneSeverity is the severity from which a single word makes a text profane.
const profaneSeverity = 1.8

// weaklyLabel adds labels that few sources have, by the words of the text: PROFANITY is yes with a strong word, and
// SEXUALLY_EXPLICIT is no without a sexual word. Labels of the source stay.
func (l *lexicons) weaklyLabel(e *Example) {
	if len(l.terms) == 0 || e.Labelled(profanity) && e.Labelled(explicit) {
		return
	}
	severity, sexualWords := 0.0, 0
	s := text.Get()
	defer text.Put(s)
	for _, t := range s.Tokenize(e.Text) {
		found, ok := l.terms[string(t.Folded)]
		if !ok || found.otherLanguage {
			continue
		}
		severity = max(severity, found.severity)
		if found.sexual {
			sexualWords++
		}
	}
	if !e.Labelled(profanity) {
		switch {
		case severity >= profaneSeverity:
			e.set(1, 0.3, profanity)
		case severity == 0:
			e.set(0, 0.15, profanity)
		}
	}
	if !e.Labelled(explicit) && sexualWords == 0 {
		e.set(0, 0.1, explicit)
	}
}

// examples makes an example of every term.
func (l *lexicons) examples() []Example {
	words := make([]string, 0, len(l.terms))
	for w := range l.terms {
		words = append(words, w)
	}
	sort.Strings(words)
	var out []Example
	for _, w := range words {
		t := l.terms[w]
		e := Example{Text: w, Source: "lexicon"}
		if t.otherLanguage {
			e.set(1, 0.2, profanity)
			out = append(out, e)
			continue
		}
		if t.severity >= profaneSeverity {
			e.set(1, 0.4, profanity)
			e.set(1, 0.2, toxicity)
		}
		if t.sexual && t.severity >= 2 {
			e.set(0.8, 0.3, explicit)
		}
		if t.slur && t.severity >= 2.4 {
			e.set(1, 0.3, identity, hate)
		}
		if e.Labels != (Example{}).Labels {
			out = append(out, e)
		}
	}
	return out
}
