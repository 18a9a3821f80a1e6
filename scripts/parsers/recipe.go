// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
)

// Two texts that leave no doubt, of the same length, so that what depends on lengths happens to both.
const (
	vile = "I will find you and kill you, you worthless piece of shit."
	fine = "The bakery on the corner has wonderful rye bread, so good."
)

// sample is a request with the vile sentence, and the same request with a harmless one.
type sample struct {
	name string
	// class says what was done to an ordinary request.
	class      string
	vile, fine *request
	// generated is how the sample was made, nil for rows and fixtures.
	generated *recipe
}

// recipe makes a request in steps. Each step has a seed of its own, so that a step can be left out without changing
// the others.
type recipe struct {
	base  base
	seed  uint64
	steps []step
}

type step struct {
	change *mutation
	seed   uint64
	// variant is the variant of the mutation that is made. If negative, it is chosen at random.
	variant int
}

// mutation is something that may be done to a draft.
type mutation struct {
	name string
	// kinds are the bases to which it can be applied, nil for all.
	kinds []string
	stage stage
	do    func(*draft)
}

// stage is when a mutation is made.
type stage int

const (
	onValues stage = iota // what the fields are
	onFrame               // how they are written
	onBody                // the body as bytes
	onHeader              // the header
	onBytes               // single bytes of either
)

// base is what is mutated: an ordinary request of a kind, or an existing sample.
type base struct {
	kind   string
	sample *sample
}

// draft is a request in the making.
type draft struct {
	*rand.Rand
	kind     string
	sentence string

	notes    []string
	variant  int // that chosen has to return; any when it is negative
	variants int // how many there are

	method string
	media  string   // of the Content-Type
	params string   // as they stand behind the media type
	types  []string // lines in the place of the one Content-Type; nil is none
	header []string // further lines

	parts  []*part
	target *part // the one that holds the sentence

	// How parts are written.
	boundary  string
	eol       string
	preamble  string
	epilogue  string
	end       string // "--" behind the last boundary
	separator string // between a form's fields
	escape    func(*draft, []byte) string
	wrap      func(string) string // around the whole of JSON

	body []byte
}

// part is a field of a form or a JSON object.
type part struct {
	name        string
	value       []byte
	disposition string // in the place of the ordinary one
	typ         string
	lines       []string
}

// note adds to the name of a mutation what tells its variants apart.
func (d *draft) note(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

func pick[T any](d *draft, from ...T) T { return from[d.IntN(len(from))] }

// chosen returns one of the strings at random, and notes it. The first choice of a mutation is its variant.
func chosen(d *draft, from ...string) string {
	i := d.IntN(len(from))
	if d.variants == 0 {
		d.variants = len(from)
		if d.variant >= 0 {
			i = d.variant % len(from)
		}
	}
	d.note("%.80q", from[i])
	return from[i]
}

// kinds are the kinds of ordinary requests, the more interesting ones several times.
var kinds = []string{"multipart", "multipart", "multipart", "form", "json", "text", "xml"}

func is(kinds ...string) []string { return kinds }

// make returns the request with a sentence, and the notes of its steps.
func (r *recipe) make(sentence string) (*request, []string) {
	q, notes, _ := r.build(sentence)
	return q, notes
}

// build is make, and also returns how many variants the first step has.
func (r *recipe) build(sentence string) (q *request, notes []string, variants int) {
	d := &draft{Rand: rand.New(rand.NewPCG(r.seed, 0)), kind: r.base.kind, sentence: sentence, method: "POST"}
	steps := slices.Clone(r.steps)
	slices.SortStableFunc(steps, func(a, b step) int { return int(a.change.stage - b.change.stage) })
	if s := r.base.sample; s != nil {
		d.fromSample(s)
	} else {
		d.ordinary()
	}
	first := func(s step) {
		if s == r.steps[0] {
			variants = d.variants
		}
	}
	run := func(from, to stage) {
		for _, s := range steps {
			if s.change.stage < from || s.change.stage > to {
				continue
			}
			d.begin(s)
			s.change.do(d)
			first(s)
			notes = append(notes, strings.TrimSpace(s.change.name+" "+strings.Join(d.notes, " ")))
		}
	}
	run(onValues, onFrame)
	if r.base.sample == nil {
		d.render()
	}
	run(onBody, onHeader)
	lines := d.header
	if r.base.sample == nil {
		if d.types == nil && d.media+d.params != "" {
			d.types = []string{"Content-Type: " + d.media + d.params}
		}
		lines = append(slices.Clone(d.types), d.header...)
	}
	out := &request{method: d.method, header: slices.Clone(lines), body: d.body}
	for _, s := range steps {
		if s.change.stage == onBytes {
			d.begin(s)
			d.header, d.body = out.header, out.body
			s.change.do(d)
			first(s)
			out.header, out.body = d.header, d.body
			notes = append(notes, s.change.name)
		}
	}
	if len(notes) == 0 {
		notes = []string{"nothing"}
	}
	return out, notes, variants
}

// begin prepares a step.
func (d *draft) begin(s step) {
	d.Rand = rand.New(rand.NewPCG(s.seed, 1))
	d.notes, d.variant, d.variants = nil, s.variant, 0
}

func (d *draft) fromSample(s *sample) {
	from := s.vile
	if d.sentence == fine {
		from = s.fine
	}
	d.method, d.header, d.body = from.method, slices.Clone(from.header), bytes.Clone(from.body)
}

// ordinary makes what a browser or an app sends.
func (d *draft) ordinary() {
	d.eol, d.end, d.separator = "\r\n", "--", "&"
	d.boundary = pick(d, "xyz", "----WebKitFormBoundary7MA4YWxkTrZu0gW", "----=_Part_1", "0123456789abcdef")
	d.target = &part{name: pick(d, "comment", "text", "a"), value: []byte(d.sentence)}
	d.parts = []*part{{name: "title", value: []byte("Rye bread")}, d.target}
	if d.IntN(2) == 0 {
		slices.Reverse(d.parts)
	}
	d.escape = func(_ *draft, value []byte) string { return url.QueryEscape(string(value)) }
	switch d.kind {
	case "multipart":
		d.media, d.params = "multipart/form-data", "; boundary="+d.boundary
		if d.IntN(2) == 0 {
			file := &part{
				name: "photo", value: []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x01\xff"),
				disposition: `form-data; name="photo"; filename="a.png"`, typ: "image/png",
			}
			if d.IntN(2) == 0 {
				// Large enough for the guard that streams it.
				file.value = append(file.value, d.noise(6000)...)
			}
			d.parts = slices.Insert(d.parts, d.IntN(len(d.parts)+1), file)
		}
	case "form":
		d.media = "application/x-www-form-urlencoded"
	case "json":
		d.media = "application/json"
		d.escape = jsonEscape
	case "text":
		d.media = "text/plain"
	case "xml":
		d.media = "application/xml"
		d.escape = xmlEscape
	}
}

func jsonEscape(_ *draft, value []byte) string {
	var b strings.Builder
	for _, c := range value {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func xmlEscape(_ *draft, value []byte) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;").Replace(string(value))
}

// render writes the parts in the format of the kind.
func (d *draft) render() {
	switch d.kind {
	case "multipart":
		d.body = []byte(d.multipart(d.boundary, d.parts))
	case "form":
		var fields []string
		for _, p := range d.parts {
			fields = append(fields, url.QueryEscape(p.name)+"="+d.escape(d, p.value))
		}
		d.body = []byte(strings.Join(fields, d.separator))
	case "json":
		var members []string
		for _, p := range d.parts {
			members = append(members, fmt.Sprintf(`"%s":"%s"`, p.name, d.escape(d, p.value)))
		}
		body := "{" + strings.Join(members, ",") + "}"
		if d.wrap != nil {
			body = d.wrap(body)
		}
		d.body = []byte(body)
	case "xml":
		var b strings.Builder
		b.WriteString(`<?xml version="1.0"?>` + d.preamble + `<c>`)
		for _, p := range d.parts {
			fmt.Fprintf(&b, "<%s>%s</%[1]s>", p.name, d.escape(d, p.value))
		}
		d.body = []byte(b.String() + "</c>")
	case "text":
		d.body = d.target.value
	}
}

func (d *draft) multipart(boundary string, parts []*part) string {
	var b strings.Builder
	b.WriteString(d.preamble)
	for _, p := range parts {
		b.WriteString("--" + boundary + d.eol)
		disposition := p.disposition
		if disposition == "" {
			disposition = fmt.Sprintf(`form-data; name="%s"`, p.name)
		}
		if disposition != "none" {
			b.WriteString("Content-Disposition: " + disposition + d.eol)
		}
		if p.typ != "" {
			b.WriteString("Content-Type: " + p.typ + d.eol)
		}
		for _, line := range p.lines {
			b.WriteString(line + d.eol)
		}
		b.WriteString(d.eol)
		b.Write(p.value)
		b.WriteString(d.eol)
	}
	b.WriteString("--" + boundary + d.end + d.eol + d.epilogue)
	return b.String()
}

// singleMutations returns the samples in which one thing is done to an ordinary request: each variant of each
// mutation, with and without a file of noise among the fields.
func singleMutations(seed uint64) []*sample {
	var all []*sample
	for i, kind := range slices.Compact(slices.Clone(kinds)) {
		for j, c := range mutations {
			b := base{kind: kind}
			for variant, variants := 0, 1; c.fits(b) && variant < variants; variant++ {
				for _, more := range [][]step{nil, {{noise, uint64(variant), -1}}} {
					r := &recipe{base: b, seed: seed + uint64(i),
						steps: append([]step{{c, uint64(j), variant}}, more...)}
					if variant == 0 {
						_, _, variants = r.build(vile)
						variants = max(variants, 1)
					}
					all = append(all, r.sample(fmt.Sprintf("variant %d of %q of %s", variant, c.name, kind)))
				}
			}
		}
	}
	return all
}

// generate returns the i-th mutation of a seed, made of ordinary requests and of existing samples.
func generate(seed, i uint64, have []*sample) *sample {
	r := rand.New(rand.NewPCG(seed, i))
	out := &recipe{seed: r.Uint64()}
	if len(have) > 0 && r.IntN(6) == 0 {
		out.base.sample = have[r.IntN(len(have))]
	} else {
		out.base.kind = kinds[r.IntN(len(kinds))]
	}
	var fitting []*mutation
	for _, c := range mutations {
		if c.fits(out.base) {
			fitting = append(fitting, c)
		}
	}
	for range []int{1, 1, 1, 2, 2, 3, 4}[r.IntN(7)] {
		out.steps = append(out.steps, step{fitting[r.IntN(len(fitting))], r.Uint64(), -1})
	}
	// Guards look away from what does not look like text.
	if noise.fits(out.base) && r.IntN(4) == 0 {
		out.steps = append(out.steps, step{noise, r.Uint64(), -1})
	}
	return out.sample(fmt.Sprintf("mutation %d of seed %d", i, seed))
}

// fits reports whether a mutation can be applied to a base.
func (c *mutation) fits(b base) bool {
	if b.sample != nil {
		length, _ := b.sample.vile.framed()
		return c.kinds == nil && c.stage >= onBody && !(length && c.stage != onHeader)
	}
	return c.kinds == nil || slices.Contains(c.kinds, b.kind)
}

// sample makes the requests.
func (r *recipe) sample(name string) *sample {
	s := &sample{name: name, generated: r}
	var notes []string
	s.vile, notes = r.make(vile)
	s.fine, _ = r.make(fine)
	from := r.base.kind
	if r.base.sample != nil {
		from = r.base.sample.class
	}
	s.class = from + ": " + strings.Join(notes, " + ")
	return s
}
