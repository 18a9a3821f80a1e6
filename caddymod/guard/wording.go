// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/text/language"

	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
)

// wordingFile holds the sentences of the page, by language and by English sentence.
//
//go:embed wording.json
var wordingFile []byte

// wording is the page in one language.
type wording struct {
	// Tag is the BCP 47 tag, and Direction is "rtl" where the language is written from right to left.
	Tag, Direction string
	sentences      map[string]string // by the English one; nil for English
}

// say returns an English sentence in the language, or as it is where it has no translation.
func (l wording) say(english string) string {
	if own, ok := l.sentences[english]; ok {
		return own
	}
	return english
}

// judged is the sentence of [rejectionDetail] that names categories.
const judged = "The text was judged as {}."

// detail returns the detail of a problem in the language. A detail without a translation, for example one with a limit
// in it, is left out: the title says as much.
func (l wording) detail(p *problem.Problem) string {
	switch english := p.Error(); {
	case l.sentences == nil:
		return english
	case english == judgedAs(p.Categories):
		names := make([]string, len(p.Categories))
		for i, category := range p.Categories {
			names[i] = l.say(category)
		}
		separator := ", "
		switch l.Tag {
		case "ar":
			separator = "، "
		case "ja", "zh":
			separator = "、"
		}
		return strings.Replace(l.say(judged), "{}", strings.Join(names, separator), 1)
	default:
		return l.sentences[english]
	}
}

// wordings are the languages of the page, English first, and the matcher that finds the one that a visitor wants.
var wordings = sync.OnceValue(func() (w struct {
	all   []wording
	match language.Matcher
}) {
	var sentences map[string]map[string]string
	if err := json.Unmarshal(wordingFile, &sentences); err != nil {
		panic(fmt.Sprintf("wording.json: %v", err)) // a test reads it
	}
	w.all = []wording{{Tag: "en", Direction: "ltr"}}
	for tag, own := range sentences {
		l := wording{Tag: tag, Direction: "ltr", sentences: own}
		if tag == "ar" {
			l.Direction = "rtl"
		}
		w.all = append(w.all, l)
	}
	slices.SortFunc(w.all[1:], func(a, b wording) int { return strings.Compare(a.Tag, b.Tag) })
	tags := make([]language.Tag, len(w.all))
	for i, l := range w.all {
		tags[i] = language.Make(l.Tag)
	}
	w.match = language.NewMatcher(tags)
	return w
})

// maxAcceptLanguage is the maximum length of an Accept-Language header field that is read, in bytes. Browsers send some
// 50.
const maxAcceptLanguage = 512

// wordingFor returns the wording that the values of an Accept-Language header field ask for (RFC 9110, section 12.5.4),
// and that of English where there is none, or none of these languages is known.
func wordingFor(accept []string) wording {
	w := wordings()
	value := strings.Join(accept, ",")
	if value == "" || len(value) > maxAcceptLanguage {
		return w.all[0]
	}
	tags, _, err := language.ParseAcceptLanguage(value)
	if err != nil {
		return w.all[0]
	}
	_, i, confidence := w.match.Match(tags...)
	if confidence == language.No {
		return w.all[0]
	}
	return w.all[i]
}
