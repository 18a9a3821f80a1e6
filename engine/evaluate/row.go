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

// The limits of the service, in characters (Unicode code points). What is longer is not judged, see [Row.Rejected].
const (
	// MaxText is the length of the longest text.
	MaxText = 10_000
	// MaxTheme is the length of the longest theme.
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

// ParseLabel returns the label of a name as [LabelName] gives it. The error lists the names.
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

// Row is a labelled text: a line of an input.
type Row struct {
	// File and Line, from 1, are where the row stands.
	File string
	Line int
	// Text is what is judged. Empty when Rejected is not.
	Text string
	// Kind is what the owner of the data calls this kind of text; empty where the row has none.
	Kind string
	// Labels are from 0 (no) to 1 (yes), by [LabelName]; NaN is unknown. A fraction is a share of annotators.
	Labels [NumLabels]float64
	// Theme is a theme in free text, Paraphrase the same in other words, and Hit whether the text touches it. Theme is
	// empty where the row is not about one, and Paraphrase where it has none.
	Theme, Paraphrase string
	Hit               bool
	// Rejected says why the service would refuse the request; empty where it would judge it.
	Rejected string
}

// Labelled reports whether the row has a label, apart from one for a theme.
func (r *Row) Labelled() bool {
	return slices.ContainsFunc(r.Labels[:], func(v float64) bool { return !math.IsNaN(v) })
}

// yes is the truth of a label that is known: a fraction counts as the answer of the majority.
func yes(label float64) bool { return label >= 0.5 }

// harmful returns whether one of the five categories applies, and whether the labels decide that: one label of yes is
// enough for yes, but no takes all five.
func (r *Row) harmful() (is, known bool) {
	known = true
	for _, v := range r.Labels[:engine.NumCategories] {
		if yes(v) {
			return true, true
		}
		known = known && !math.IsNaN(v)
	}
	return false, known
}

// ParseRow reads a row from a line of JSON Lines, as strictly as the service reads requests: valid UTF-8, no member
// twice, nothing behind the object. Unknown members are ignored. Errors name what is wrong and never hold the text.
func ParseRow(line []byte) (Row, error) {
	row := Row{}
	for i := range row.Labels {
		row.Labels[i] = math.NaN()
	}
	if !utf8.Valid(line) {
		return row, errors.New("not valid UTF-8")
	}
	if start := bytes.TrimLeft(line, " \t\r\n"); len(start) == 0 || start[0] != '{' {
		return row, errors.New("not a JSON object; each line must hold one, such as {\"text\": \"...\", \"labels\": {\"hate\": 0}}")
	}
	var in struct {
		Text       jsontext.Value `json:"text"`
		Kind       jsontext.Value `json:"kind"`
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
	}{{"text", in.Text, &row.Text}, {"kind", in.Kind, &row.Kind}, {"theme", in.Theme, &row.Theme}, {"theme_paraphrase", in.Paraphrase, &row.Paraphrase}} {
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

// labels reads the member "labels".
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

// theme reads the member "hit" and checks it with the theme.
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

// limit rejects what the service would refuse for its length.
func (r *Row) limit() {
	for _, member := range []struct {
		name, text string
		most       int
	}{{"text", r.Text, MaxText}, {"theme", r.Theme, MaxTheme}, {"theme_paraphrase", r.Paraphrase, MaxTheme}} {
		if n := utf8.RuneCountInString(member.text); n > member.most {
			r.Text = ""
			r.Rejected = fmt.Sprintf("%s has %d characters; at most %d are allowed", member.name, n, member.most)
			return
		}
	}
}

// number returns a number; true and false are 1 and 0.
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

// absent reports whether a member is not there or null.
func absent(v jsontext.Value) bool { return v == nil || v.Kind() == 'n' }

// blank reports whether text is nothing but white space, which the service refuses.
func blank(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsSpace(r) }) < 0
}

// quoted quotes a name of any length and content for a message.
func quoted(name string) string { return fmt.Sprintf("%q", shortened(name, 40)) }

// malformed describes broken JSON by its place.
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

// shortened cuts a text to at most n characters, an ellipsis among them.
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
