// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
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
	understood int // how many parsers understood the vile sentence
	findings   []*finding
	unsure     bool // the judge would not have refused the text in any form
	falsely    string
}

// try asks everybody about a sample.
func (r *rig) try(s *sample, base int) *outcome {
	o := &outcome{}
	by, plain := r.ask(s.vile)
	o.understood = len(by)
	if len(by) == 0 {
		return o
	}
	refused := false
	for _, g := range r.guards {
		// What the defaults refuse, on_error reject refuses, too.
		if len(s.vile.body) <= g.above || refused && g.above == 0 {
			continue
		}
		v := g.judge(s.vile)
		refused = v.code >= 400
		if f := r.bypass(g, s, by, v); f != nil {
			o.findings = append(o.findings, f)
		}
	}
	// What most parsers read as one plain field is not odd; a guard that refuses it does so for its form.
	if base > 0 && plain*2 > base {
		if v := r.guards[0].judge(s.fine); v.code >= 400 {
			o.falsely = problem(v)
		}
	}
	return o
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

// bypass returns a finding when a guard let by what parsers understood. They are asked again from behind the guard: only what they
// understand there counts.
func (r *rig) bypass(g *guard, s *sample, by []*asked, v verdict) *finding {
	if !g.passed(v) {
		return nil
	}
	f := &finding{sample: s, guard: g}
	for _, p := range by {
		if text, ok := r.through(g, p, s.vile); ok {
			f.parsers = append(f.parsers, p)
			if f.text == "" {
				f.text = text
			}
		}
	}
	if len(f.parsers) == 0 || !r.vile(f.text) {
		return nil
	}
	return f
}

// through asks a parser that stands behind a guard, and returns the text with the vile sentence if it came through.
func (r *rig) through(g *guard, p *asked, q *request) (string, bool) {
	a, err := g.peer.ask(q, "/"+p.name)
	if err != nil {
		return "", false
	}
	u, err := understood(a)
	if err != nil || !g.passed(verdict{code: 200, status: u.Status}) {
		return "", false
	}
	return u.with(vile)
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
	return strings.TrimSpace(v.body)
}
