// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// report counts the outcomes of the samples.
type report struct {
	out     io.Writer
	verbose bool
	begin   time.Time

	mu          sync.Mutex
	said        time.Time
	tried       int
	asked       int
	understood  int
	binary      int
	silent      int
	findings    []*finding
	falseAlarms map[string]int
}

func (r *report) say(format string, args ...any) {
	fmt.Fprintf(r.out, "%4.0f s: %s\n", time.Since(r.begin).Seconds(), fmt.Sprintf(format, args...))
}

func (r *report) add(s *sample, o *outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried++
	for _, count := range []struct {
		of   *int
		more bool
	}{{&r.asked, o.asked}, {&r.understood, o.understood}, {&r.binary, o.binary}, {&r.silent, o.silent}} {
		if count.more {
			*count.of++
		}
	}
	if o.silent {
		r.say("FAIL: the app was told nothing about %s: %s", s.name, s.class)
	}
	r.findings = append(r.findings, o.findings...)
	if o.falseAlarm != "" {
		if r.falseAlarms == nil {
			r.falseAlarms = map[string]int{}
		}
		r.falseAlarms[o.falseAlarm]++
		if r.verbose {
			r.say("harmless, refused as %s: %s: %s", o.falseAlarm, s.name, s.class)
		}
	}
	if time.Since(r.said) > 15*time.Second {
		r.said = time.Now()
		r.say("%d tried, the parsers asked about %d, %d understood, %d got by", r.tried, r.asked, r.understood,
			len(r.findings))
	}
}

// group are findings from the same mutations.
type group struct {
	name     string
	findings []*finding
}

// groups sorts the findings by their mutations, the most frequent first.
func groups(findings []*finding) []*group {
	byName := map[string]*group{}
	var all []*group
	for _, f := range findings {
		name := f.sample.group()
		g := byName[name]
		if g == nil {
			g = &group{name: name}
			byName[name] = g
			all = append(all, g)
		}
		g.findings = append(g.findings, f)
	}
	slices.SortStableFunc(all, func(a, b *group) int { return cmp.Compare(len(b.findings), len(a.findings)) })
	return all
}

// notInFileNames matches what is replaced in the names of files.
var notInFileNames = regexp.MustCompile(`[^a-z0-9]+`)

// file returns the name of the file with the group's example.
func (g *group) file() string {
	name := strings.Trim(notInFileNames.ReplaceAllString(strings.ToLower(g.name), "-"), "-")
	return name[:min(len(name), 100)]
}

// times returns how often a group got through each guard.
func (g *group) times() string {
	count := map[string]int{}
	for _, f := range g.findings {
		count[f.guard.name]++
	}
	var times []string
	for _, name := range sortedKeys(count) {
		times = append(times, fmt.Sprintf("%s %d", name, count[name]))
	}
	return strings.Join(times, ", ")
}

// group returns the class of a sample without the variants.
func (s *sample) group() string {
	if s.generated == nil {
		return s.class
	}
	from := s.generated.base.kind
	if b := s.generated.base.sample; b != nil {
		from = b.class
	}
	var names []string
	for _, step := range s.generated.steps {
		names = append(names, step.change.name)
	}
	slices.Sort(names)
	return from + ": " + strings.Join(names, " + ")
}

// Limits of the work on findings.
const (
	maxSimplified = 2000             // findings that are simplified
	maxSaved      = 200              // groups with an example that is reduced and saved
	reduceTime    = 60 * time.Second // time for all of that
)

// conclude prints the results, and saves the findings.
func (r *rig) conclude(ctx context.Context, o options, rep *report) error {
	for _, p := range r.parsers {
		each := p.took.Seconds() * 1000 / float64(max(1, p.asked))
		rep.say("%-11s asked %6d times, understood the sentence in %6d, alone in %4d; no answer to %d, %d of them late; %.1f ms each",
			p.name, p.asked, p.understood, p.alone, p.failed, p.late, each)
	}
	for _, code := range sortedKeys(rep.falseAlarms) {
		rep.say("warning: %d harmless bodies that most parsers read as one plain field were refused as %q",
			rep.falseAlarms[code], code)
	}
	if err := r.checkServerLog(); err != nil {
		return err
	}
	rep.say("%d tried, the parsers asked about %d, %d understood, %d got by; %d more that say they are files",
		rep.tried, rep.asked, rep.understood, len(rep.findings), rep.binary)
	if len(rep.findings) == 0 && rep.silent > 0 {
		return fmt.Errorf("of %d bodies the app was told nothing", rep.silent)
	}
	if len(rep.findings) == 0 {
		return nil
	}
	end := time.Now().Add(reduceTime)
	r.simplifyAll(ctx, o, rep, end)
	if o.save == "" {
		folder, err := os.MkdirTemp("", "caddy-moderation-got-by-")
		if err != nil {
			return err
		}
		o.save = folder
	} else if err := os.MkdirAll(o.save, 0o777); err != nil {
		return err
	}
	for i, g := range groups(rep.findings) {
		if err := r.save(ctx, o, rep, g, i < maxSaved, end); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d bodies that a parser understood got by; examples are in %s", len(rep.findings), o.save)
}

// simplifyAll simplifies the first findings, several at once, as long as there is time.
func (r *rig) simplifyAll(ctx context.Context, o options, rep *report, end time.Time) {
	var wait sync.WaitGroup
	work := make(chan *finding)
	for range o.workers {
		wait.Go(func() {
			for f := range work {
				r.simplify(f)
			}
		})
	}
	for _, f := range rep.findings[:min(maxSimplified, len(rep.findings))] {
		if time.Now().Before(end) && ctx.Err() == nil {
			work <- f
		}
	}
	close(work)
	wait.Wait()
}

// save prints a group of findings, and writes its best example to a file, reduced as long as there is time, if
// example is true.
func (r *rig) save(ctx context.Context, o options, rep *report, g *group, example bool, end time.Time) error {
	// The one that most parsers understand is the best example.
	f := slices.MaxFunc(g.findings, func(a, b *finding) int {
		return cmp.Or(cmp.Compare(len(a.parsers), len(b.parsers)),
			cmp.Compare(len(b.sample.vile.body), len(a.sample.vile.body)))
	})
	file := filepath.Join(o.save, g.file()+".txt")
	if example {
		class := f.sample.class
		if time.Now().Before(end) && ctx.Err() == nil {
			r.shrink(f, 300)
		}
		text := fmt.Sprintf("# %s\n# got by the guard %s, understood by %s\n# %s\n%s", g.name, f.guard.name,
			f.names(), class, f.sample.vile)
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			return err
		}
	}
	fmt.Fprintf(rep.out, "FAIL: %s: %s; %s is understood by %s: %s\n", g.times(), g.name, f.sample.name,
		f.names(), file)
	if o.verbose {
		variants := map[string]bool{}
		for _, f := range g.findings {
			variants[f.sample.class] = true
		}
		for _, class := range sortedKeys(variants) {
			fmt.Fprintf(rep.out, "      %s\n", class)
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func (f *finding) names() string {
	var names []string
	for _, p := range f.parsers {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// checkServerLog looks for signs of a broken program in what the server wrote.
func (r *rig) checkServerLog() error {
	out := r.caddy.Output()
	for _, sign := range []string{"panic", "DATA RACE", "fatal error"} {
		if i := strings.Index(out, sign); i >= 0 {
			return errors.New(out[max(0, i-200):min(len(out), i+2000)])
		}
	}
	return nil
}
