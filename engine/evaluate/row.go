// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// The limits of the service, in characters (Unicode code points). Longer rows are rejected, see [Row.Rejected].
const (
	// MaxText is the maximum length of a text.
	MaxText = 10_000
	// MaxTheme is the maximum length of a theme and of its paraphrase.
	MaxTheme = 100
)

// NumLabels is the number of labels that a row may have: the categories, then the attributes.
const NumLabels = engine.NumCategories + engine.NumAttributes

// LabelName returns the name of a label: "hate" for 0, "TOXICITY" for [engine.NumCategories].
func LabelName(label int) string {
	if label < engine.NumCategories {
		return engine.Category(label).String()
	}
	return engine.Attribute(label - engine.NumCategories).String()
}

// ParseLabel is the inverse of [LabelName]. The error for an unknown name lists the known ones.
func ParseLabel(name string) (int, error) {
	var names []string
	for label := range NumLabels {
		if LabelName(label) == name {
			return label, nil
		}
		names = append(names, LabelName(label))
	}
	return 0, fmt.Errorf("unknown label %s; known are %s", quoted(name), strings.Join(names, ", "))
}

// Row is a labelled text: one line of an input.
type Row struct {
	// File and Line are where the row stands. The first line is 1.
	File string
	Line int
	// Text is the text to moderate. It is empty if the row is rejected.
	Text string
	// Kind is what the owner of the data calls this kind of text, or empty.
	Kind string
	// Language is the language that the owner of the data says the text is in, as a BCP 47 tag, or empty.
	Language string
	// Labels are from 0 (no) to 1 (yes), indexed as in [LabelName]. NaN means unknown. A fraction is a share of
	// annotators.
	Labels [NumLabels]float64
	// Theme is a free-text theme, Paraphrase the same theme in other words, and Hit whether the text touches it. Either
	// is empty if the row has none.
	Theme, Paraphrase string
	Hit               bool
	// Rejected says why the service would refuse the request. It is empty if the service would accept it.
	Rejected string
}

// Labelled reports whether the row has a label of a category or attribute.
func (r *Row) Labelled() bool {
	return slices.ContainsFunc(r.Labels[:], func(v float64) bool { return !math.IsNaN(v) })
}

// positive reports whether a known label means yes. A fraction counts as the answer of the majority.
func positive(label float64) bool { return label >= 0.5 }

// harmful reports whether any of the five categories applies, and whether the labels tell. One yes is enough for yes;
// no takes all five.
func (r *Row) harmful() (is, known bool) {
	known = true
	for _, v := range r.Labels[:engine.NumCategories] {
		if positive(v) {
			return true, true
		}
		known = known && !math.IsNaN(v)
	}
	return false, known
}

// ParseRow parses a line of JSON Lines as strictly as the service parses requests: valid UTF-8, no duplicate members,
// nothing after the object. Unknown members are ignored. Errors name what is wrong and never quote the text.
func ParseRow(line []byte) (Row, error) {
	row := Row{}
	for i := range row.Labels {
		row.Labels[i] = math.NaN()
	}
	if !utf8.Valid(line) {
		return row, errors.New("not valid UTF-8")
	}
	if start := bytes.TrimLeft(line, " \t\r\n"); len(start) == 0 || start[0] != '{' {
		const example = `{"text": "...", "labels": {"hate": 0}}`
		return row, errors.New("not a JSON object; each line must hold one, such as " + example)
	}
	var in struct {
		Text       jsontext.Value `json:"text"`
		Kind       jsontext.Value `json:"kind"`
		Language   jsontext.Value `json:"language"`
		Labels     jsontext.Value `json:"labels"`
		Theme      jsontext.Value `json:"theme"`
		Paraphrase jsontext.Value `json:"theme_paraphrase"`
		Hit        jsontext.Value `json:"hit"`
	}
	if err := json.Unmarshal(line, &in); err != nil {
		return row, malformed(err)
	}
	for _, member := range []struct {
		name string
		from jsontext.Value
		to   *string
	}{
		{"text", in.Text, &row.Text},
		{"kind", in.Kind, &row.Kind},
		{"language", in.Language, &row.Language},
		{"theme", in.Theme, &row.Theme},
		{"theme_paraphrase", in.Paraphrase, &row.Paraphrase},
	} {
		if absent(member.from) {
			continue
		}
		if member.from.Kind() != '"' {
			return row, fmt.Errorf("%q must be a string", member.name)
		}
		text, err := jsontext.AppendUnquote(nil, member.from)
		if err != nil {
			return row, malformed(err)
		}
		*member.to = string(text)
	}
	switch {
	case absent(in.Text):
		return row, errors.New("no \"text\"")
	case blank(row.Text):
		return row, errors.New("\"text\" is empty")
	}
	if err := row.labels(in.Labels); err != nil {
		return row, err
	}
	if err := row.theme(!absent(in.Theme), in.Hit); err != nil {
		return row, err
	}
	if row.Theme == "" && !row.Labelled() {
		return row, errors.New("no label: a row needs \"labels\", or \"theme\" and \"hit\"")
	}
	row.limit()
	return row, nil
}

// labels parses the member "labels".
func (r *Row) labels(in jsontext.Value) error {
	if absent(in) {
		return nil
	}
	if in.Kind() != '{' {
		return errors.New("\"labels\" must be an object, such as {\"hate\": 0, \"harassment\": 1}")
	}
	decoder := jsontext.NewDecoder(bytes.NewReader(in))
	if _, err := decoder.ReadToken(); err != nil {
		return malformed(err)
	}
	for decoder.PeekKind() == '"' {
		token, err := decoder.ReadToken()
		if err != nil {
			return malformed(err)
		}
		name := token.String()
		value, err := decoder.ReadValue()
		if err != nil {
			return malformed(err)
		}
		label, err := ParseLabel(name)
		if err != nil {
			return err
		}
		if absent(value) {
			continue
		}
		v, ok := number(value)
		if !ok || !(v >= 0 && v <= 1) {
			return fmt.Errorf("label %q must be a number from 0 to 1", name)
		}
		r.Labels[label] = v
	}
	return nil
}

// theme parses the member "hit" and checks it against the theme.
func (r *Row) theme(given bool, hit jsontext.Value) error {
	switch {
	case !given && absent(hit):
		return nil
	case !given:
		return errors.New("\"hit\" without \"theme\"")
	case blank(r.Theme):
		return errors.New("\"theme\" is empty")
	case absent(hit):
		return errors.New("\"theme\" without \"hit\"")
	}
	v, ok := number(hit)
	if !ok || v != 0 && v != 1 {
		return errors.New("\"hit\" must be true or false")
	}
	r.Hit = v == 1
	if blank(r.Paraphrase) {
		r.Paraphrase = ""
	}
	return nil
}

// limit rejects the row if the service would refuse a text or theme of its length.
func (r *Row) limit() {
	for _, member := range []struct {
		name, text string
		limit      int
	}{{"text", r.Text, MaxText}, {"theme", r.Theme, MaxTheme}, {"theme_paraphrase", r.Paraphrase, MaxTheme}} {
		if n := utf8.RuneCountInString(member.text); n > member.limit {
			r.Text = ""
			r.Rejected = fmt.Sprintf("%s has %d characters; at most %d are allowed", member.name, n, member.limit)
			return
		}
	}
}

// number parses a number. true and false are 1 and 0.
func number(v jsontext.Value) (float64, bool) {
	switch v.Kind() {
	case 't':
		return 1, true
	case 'f':
		return 0, true
	case '0':
		var n float64
		return n, json.Unmarshal(v, &n) == nil
	}
	return 0, false
}

// absent reports whether a member is missing or null.
func absent(v jsontext.Value) bool { return v == nil || v.Kind() == 'n' }

// blank reports whether text is empty or white space only, which the service refuses.
func blank(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsSpace(r) }) < 0
}

// quoted quotes and shortens a name of any length and content for a message.
func quoted(name string) string { return fmt.Sprintf("%q", shortened(name, 40)) }

// malformed returns the error for broken JSON. It names the place but quotes nothing of the text.
func malformed(err error) error {
	syntax := new(jsontext.SyntacticError)
	switch {
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("malformed JSON: %s is given twice", shortened(string(syntax.JSONPointer), 80))
	case errors.As(err, &syntax) && !errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("malformed JSON at byte %d", syntax.ByteOffset+1)
	}
	return errors.New("malformed JSON: the line ends within the object; each line must hold a whole one")
}

// shortened cuts a text to at most n characters, including an ellipsis.
func shortened(text string, n int) string {
	runes := 0
	for i := range text {
		if runes++; runes == n {
			if rest := text[i:]; utf8.RuneCountInString(rest) > 1 {
				return text[:i] + "…"
			}
			break
		}
	}
	return text
}
