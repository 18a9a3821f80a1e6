// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command alarms counts false alarms: it moderates texts that are known to be harmless, above all source code, and says
// how many of them are flagged and rejected, in which category and because of which words.
//
//	go run ./engine/train/cmd/alarms --words 20 "$(go env GOROOT)/src" /usr/lib/python3
//
// Folders are searched for files of text. A file is cut into paragraphs at blank lines; short ones are joined. Of files
// whose names end in .jsonl or .jsonl.gz each member text is a paragraph by itself. Nothing is trained on any of it.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "alarms:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("alarms", flag.ContinueOnError)
	weights := flags.String("model", "engine/model/default.model", "weights file of the classifier")
	words := flags.Int("words", 0, "list this many of the words that most often carry an alarm, by category")
	list := flags.Int("list", 0, "list this many of the alarms with the highest probabilities, with the words that carry them")
	one := flags.Int("one-of", 1, "moderate one in this many paragraphs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 || *one < 1 {
		return errors.New("give files or folders of harmless text, and a positive number with --one-of")
	}
	file, err := os.ReadFile(*weights)
	if err != nil {
		return err
	}
	m, err := model.Load(bytes.NewReader(file))
	if err != nil {
		return fmt.Errorf("%s: %w", *weights, err)
	}
	e, err := engine.New(engine.Options{Classifier: engine.NewEnglish(m)})
	if err != nil {
		return err
	}
	paragraphs, err := readParagraphs(flags.Args(), *one)
	if err != nil {
		return err
	}
	verdicts, err := moderateAll(e, paragraphs)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Model %s.\n\n", e.Version())
	table(out, verdicts)
	if *words > 0 {
		carriers(out, verdicts, *words)
	}
	if *list > 0 {
		surest(out, verdicts, *list)
	}
	return nil
}

// verdict is a paragraph with its result.
type verdict struct {
	paragraph
	engine.Result
	parts engine.Explanation
}

// rejected reports whether the verdict recommends to reject the paragraph, not only to review it.
func (v *verdict) rejected() bool { return v.Recommendation == engine.Reject }

// maxProbability returns the largest probability above its threshold, or 0.
func (v *verdict) maxProbability() (highest float64) {
	for _, c := range v.Categories {
		if c.Flagged {
			highest = max(highest, c.Probability)
		}
	}
	return highest
}

// moderateAll moderates paragraphs, and explains those that are flagged.
func moderateAll(e *engine.Engine, paragraphs []paragraph) ([]verdict, error) {
	all := make([]verdict, len(paragraphs))
	jobs := runtime.GOMAXPROCS(0)
	faults := make([]error, jobs)
	var wait sync.WaitGroup
	for job := range jobs {
		wait.Go(func() {
			for i := job; i < len(all) && faults[job] == nil; i += jobs {
				v := &all[i]
				v.paragraph = paragraphs[i]
				request := engine.Request{Content: v.text}
				v.Result, faults[job] = e.Moderate(context.Background(), request)
				if faults[job] == nil && v.Flagged {
					_, v.parts, faults[job] = e.Explain(context.Background(), request)
				}
			}
		})
	}
	wait.Wait()
	return all, errors.Join(faults...)
}

// count is a line of the table.
type count struct {
	paragraphs, flagged, rejected int
	by                            [engine.NumCategories]int
}

func (c *count) add(v *verdict) {
	c.paragraphs++
	if v.Flagged {
		c.flagged++
	}
	if v.rejected() {
		c.rejected++
	}
	for i, category := range v.Categories {
		if category.Flagged {
			c.by[i]++
		}
	}
}

func (c *count) join(other *count) {
	c.paragraphs += other.paragraphs
	c.flagged += other.flagged
	c.rejected += other.rejected
	for i, n := range other.by {
		c.by[i] += n
	}
}

func (c *count) print(out io.Writer, kind string) {
	share := 100 * float64(c.flagged) / float64(max(c.paragraphs, 1))
	fmt.Fprintf(out, "| %s | %d | %d | %.2f %% | %d |", kind, c.paragraphs, c.flagged, share, c.rejected)
	for _, n := range c.by {
		fmt.Fprintf(out, " %d |", n)
	}
	fmt.Fprintln(out)
}

// maxKinds is the maximum number of kinds with a line of their own, those with the most paragraphs.
const maxKinds = 50

func table(out io.Writer, verdicts []verdict) {
	kinds := map[string]*count{}
	var all count
	for i := range verdicts {
		v := &verdicts[i]
		if kinds[v.kind] == nil {
			kinds[v.kind] = new(count)
		}
		kinds[v.kind].add(v)
		all.add(v)
	}
	fmt.Fprint(out, "| kind | paragraphs | flagged | | rejected |")
	for c := range engine.Category(engine.NumCategories) {
		fmt.Fprintf(out, " %s |", c)
	}
	fmt.Fprintf(out, "\n|%s\n", strings.Repeat("---|", 5+engine.NumCategories))
	names := slices.Sorted(maps.Keys(kinds))
	slices.SortStableFunc(names, func(a, b string) int { return kinds[b].paragraphs - kinds[a].paragraphs })
	var others count
	for i, kind := range names {
		if i < maxKinds {
			kinds[kind].print(out, kind)
			continue
		}
		others.join(kinds[kind])
	}
	if others.paragraphs > 0 {
		others.print(out, "others")
	}
	all.print(out, "all")
}

// carriers lists the parts that carry most of an alarm, by how many alarms they carry.
func carriers(out io.Writer, verdicts []verdict, most int) {
	for c := range engine.Category(engine.NumCategories) {
		found := map[string]int{}
		for i := range verdicts {
			v := &verdicts[i]
			if !v.Categories[c].Flagged || len(v.parts[c].Evidence) == 0 {
				continue
			}
			byWeight := func(a, b engine.Evidence) int { return cmp.Compare(a.Weight, b.Weight) }
			part := slices.MaxFunc(v.parts[c].Evidence, byWeight)
			found[strings.ToLower(string([]rune(v.text)[part.Begin:part.End]))]++
		}
		words := slices.Sorted(maps.Keys(found))
		slices.SortStableFunc(words, func(a, b string) int { return found[b] - found[a] })
		fmt.Fprintf(out, "\n%s:", c)
		for _, w := range words[:min(most, len(words))] {
			fmt.Fprintf(out, " %s %d", w, found[w])
		}
	}
	fmt.Fprintln(out)
}

// surest lists the alarms with the largest probabilities.
func surest(out io.Writer, verdicts []verdict, most int) {
	var flagged []*verdict
	for i := range verdicts {
		if verdicts[i].Flagged {
			flagged = append(flagged, &verdicts[i])
		}
	}
	slices.SortStableFunc(flagged, func(a, b *verdict) int {
		return cmp.Compare(b.maxProbability(), a.maxProbability())
	})
	for _, v := range flagged[:min(most, len(flagged))] {
		fmt.Fprintf(out, "\n%s:%d", v.file, v.line)
		for c, category := range v.Categories {
			if !category.Flagged {
				continue
			}
			fmt.Fprintf(out, "\n  %s %.2f:", engine.Category(c), category.Probability)
			for _, part := range v.parts[c].Evidence {
				fmt.Fprintf(out, " %q", string([]rune(v.text)[part.Begin:part.End]))
			}
		}
	}
	fmt.Fprintln(out)
}
