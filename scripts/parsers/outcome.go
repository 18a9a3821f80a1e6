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

// finding is a body whose text an app understood and a guard let through.
type finding struct {
	sample  *sample
	guard   *guard
	parsers []*runningParser // those that understood it
	text    string           // as the first of them understood it
}

// outcome is the result of trying a sample.
type outcome struct {
	asked      bool // whether the parsers were asked
	understood bool // by one of them at least
	findings   []*finding
	// binary says that there are findings, but that the type is unambiguously that of a file: such bodies pass
	// unread, as documented.
	binary bool
	// falseAlarm is the code with which the harmless text was refused for its form.
	falseAlarm string
	// silent says that the app was not told what the guard made of the body.
	silent bool
}

// try asks the guards about a sample. It asks the parsers if there is something to find out (the vile text got
// through, or the harmless one did not), and always if all is true. ordinary is how many parsers understand what the
// sample was made from.
func (r *rig) try(s *sample, ordinary int, all bool) *outcome {
	o := &outcome{}
	var open []*guard
	refused, review := false, false
	for _, g := range r.guards {
		// What the defaults refuse, on_error reject refuses, too. What would be reviewed if it were held passes
		// without a mark when it is streamed, as documented.
		if len(s.vile.body) <= g.minBody || refused && g.minBody == 0 || review && g.minBody > 0 {
			continue
		}
		v := g.check(s.vile)
		refused, review = v.code >= 400, review || v.review
		if g.passed(v) {
			open = append(open, g)
		}
	}
	harmless := r.guards[0].check(s.fine)
	o.silent = r.guarded && harmless.code/100 == 2 && harmless.status == ""
	falsely := ordinary > 0 && harmless.code >= 400
	if len(open) == 0 && !falsely && !all {
		return o
	}
	by, plain := r.ask(s.vile)
	o.asked, o.understood = true, len(by) > 0
	for _, g := range open {
		if f := r.verify(g, s, by); f != nil {
			o.findings = append(o.findings, f)
		}
	}
	if len(o.findings) > 0 && s.vile.isFile() {
		o.findings, o.binary = nil, true
	}
	// What most parsers read as one plain field is not odd. A guard that refuses it does so for its form.
	if falsely && plain*2 > ordinary {
		o.falseAlarm = problem(harmless)
	}
	return o
}

// fileType matches the media types of files.
var fileType = regexp.MustCompile(`^(?i:(image|audio|video|font)/[a-z0-9.-]+|` +
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
	return err == nil && fileType.MatchString(media) && params["charset"] == "" && params["boundary"] == ""
}

// ask asks all parsers about a request. It returns those that understood the vile sentence, and how many of them had
// it as a text of its own.
func (r *rig) ask(q *request) (by []*runningParser, plain int) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, p := range r.parsers {
		wait.Go(func() {
			u := p.understand(q, "/")
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
	slices.SortFunc(by, func(a, b *runningParser) int { return strings.Compare(a.name, b.name) })
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

// understand returns what a parser understands of a request, nil if it does not answer.
func (p *runningParser) understand(q *request, path string) *understanding {
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
	if took >= answerTimeout {
		p.late++
	}
	if err != nil {
		p.failed++
		return nil
	}
	return u
}

// verify returns a finding if parsers behind a guard understand what it let through, and nil otherwise.
func (r *rig) verify(g *guard, s *sample, by []*runningParser) *finding {
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
	if len(f.parsers) == 0 || r.guarded && !r.isVile(f.text) {
		return nil
	}
	return f
}

// longRun matches runs of characters that are no words.
var longRun = regexp.MustCompile(`[^ ]{20,}`)

// isVile reports whether the guard refuses the text around the sentence when it is written plainly. Where the rest of
// the text makes the classifier unsure, there is no bypass.
func (r *rig) isVile(text string) bool {
	const around = 80
	at := strings.Index(text, vile)
	text = text[max(0, at-around):min(len(text), at+len(vile)+around)]
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, text)
	body, err := json.Marshal(map[string]string{"comment": longRun.ReplaceAllString(text, "x")})
	if err != nil {
		return false
	}
	v := r.guards[0].check(&request{method: "POST", header: []string{"Content-Type: application/json"}, body: body})
	return v.code >= 400 || v.review
}

// problem returns the code of a refusal.
func problem(v verdict) string {
	var p struct{ Code string }
	if json.Unmarshal([]byte(v.body), &p) == nil && p.Code != "" {
		return p.Code
	}
	return "" // by the server, before the guard
}
