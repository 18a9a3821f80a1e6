// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"mime"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// finding is a body whose text an app understood and a guard let by.
type finding struct {
	sample  *sample
	guard   *guard
	parsers []*asked // that understood it
	text    string   // as the first of them did
}

// outcome is what came of a sample.
type outcome struct {
	asked      bool // whether the parsers were asked
	understood bool // by one of them at least
	findings   []*finding
	// binary says that there are findings, but that the type is that of a file and nothing about it is ambiguous: such bodies
	// pass unread, which the docs say.
	binary bool
	// falsely is the code with which the harmless text was refused for its form.
	falsely string
	// silent says that the app was told nothing of what the guard made of it.
	silent bool
}

// try asks the guards about a sample. The parsers are asked when there is something to find out: the vile text got by, or the harmless
// one did not; and when all of them are to be asked. Ordinary is how many parsers understand what the sample was made from.
func (r *rig) try(s *sample, ordinary int, all bool) *outcome {
	o := &outcome{}
	var open []*guard
	refused, review := false, false
	for _, g := range r.guards {
		// What the defaults refuse, on_error reject refuses, too. What the judge would have reviewed when it is held goes by
		// without a mark when it streams, as documented.
		if len(s.vile.body) <= g.above || refused && g.above == 0 || review && g.above > 0 {
			continue
		}
		v := g.judge(s.vile)
		refused, review = v.code >= 400, review || v.review
		if g.passed(v) {
			open = append(open, g)
		}
	}
	harmless := r.guards[0].judge(s.fine)
	o.silent = r.guarded && harmless.code/100 == 2 && harmless.status == ""
	falsely := ordinary > 0 && harmless.code >= 400
	if len(open) == 0 && !falsely && !all {
		return o
	}
	by, plain := r.ask(s.vile)
	o.asked, o.understood = true, len(by) > 0
	for _, g := range open {
		if f := r.through(g, s, by); f != nil {
			o.findings = append(o.findings, f)
		}
	}
	if len(o.findings) > 0 && s.vile.isFile() {
		o.findings, o.binary = nil, true
	}
	// What most parsers read as one plain field is not odd; a guard that refuses it does so for its form.
	if falsely && plain*2 > ordinary {
		o.falsely = problem(harmless)
	}
	return o
}

// file are the types of files.
var file = regexp.MustCompile(`^(?i:(image|audio|video|font)/[a-z0-9.-]+|` +
	`application/(octet-stream|zip|gzip|pdf|grpc|wasm|x-protobuf|msgpack|cbor|offset\+octet-stream))$`)

// isFile reports whether the header says plainly that the body is a file: by one type that parses, without a charset.
func (r *request) isFile() bool {
	var types []string
	for _, line := range r.header {
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(strings.TrimSpace(name), "Content-Type") {
			types = append(types, strings.TrimSpace(value))
		}
	}
	if len(types) != 1 {
		return false
	}
	media, params, err := mime.ParseMediaType(types[0])
	return err == nil && file.MatchString(media) && params["charset"] == "" && params["boundary"] == ""
}

// ask asks all parsers about a request. By are those that understood the vile sentence, plain says how many of them had it
// as a text of its own.
func (r *rig) ask(q *request) (by []*asked, plain int) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, p := range r.parsers {
		wait.Go(func() {
			u := p.about(q, "/")
			if u == nil {
				return
			}
			if _, ok := u.with(vile); ok {
				mu.Lock()
				defer mu.Unlock()
				by = append(by, p)
				if slices.Contains(u.Texts, vile) {
					plain++
				}
			}
		})
	}
	wait.Wait()
	slices.SortFunc(by, func(a, b *asked) int { return strings.Compare(a.name, b.name) })
	for _, p := range by {
		p.mu.Lock()
		p.understood++
		if len(by) == 1 {
			p.alone++
		}
		p.mu.Unlock()
	}
	return by, plain
}

// about is what a parser understands of a request; nil when it does not answer.
func (p *asked) about(q *request, path string) *understanding {
	begin := time.Now()
	a, err := p.ask(q, path)
	took := time.Since(begin)
	var u *understanding
	if err == nil {
		u, err = understood(a)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	p.took += took
	if took >= patience {
		p.late++
	}
	if err != nil {
		p.failed++
		return nil
	}
	return u
}

// through returns a finding when parsers understand, from behind a guard, what it let by. Only what they understand there counts.
func (r *rig) through(g *guard, s *sample, by []*asked) *finding {
	f := &finding{sample: s, guard: g}
	for _, p := range by {
		a, err := g.peer.ask(s.vile, "/"+p.name)
		if err != nil {
			continue
		}
		u, err := understood(a)
		if err != nil || !g.passed(verdict{code: a.status, status: u.Status}) {
			continue
		}
		if text, ok := u.with(vile); ok {
			f.parsers = append(f.parsers, p)
			if f.text == "" {
				f.text = text
			}
		}
	}
	if len(f.parsers) == 0 || r.guarded && !r.vile(f.text) {
		return nil
	}
	return f
}

// long are runs that are no words.
var long = regexp.MustCompile(`[^ ]{20,}`)

// vile reports whether the judge refuses what stands around the sentence when it is written plainly: whatever else stands in
// the text, a judge that is not sure is no bypass.
func (r *rig) vile(text string) bool {
	const around = 80
	at := strings.Index(text, vile)
	text = text[max(0, at-around):min(len(text), at+len(vile)+around)]
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, text)
	body, err := json.Marshal(map[string]string{"comment": long.ReplaceAllString(text, "x")})
	if err != nil {
		return false
	}
	v := r.guards[0].judge(&request{method: "POST", header: []string{"Content-Type: application/json"}, body: body})
	return v.code >= 400 || v.review
}

// problem is the code of a refusal.
func problem(v verdict) string {
	var p struct{ Code string }
	if json.Unmarshal([]byte(v.body), &p) == nil && p.Code != "" {
		return p.Code
	}
	return "" // by the server, before the guard
}
