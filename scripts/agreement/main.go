// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command agreement measures how close the scores of this service are to those of the Perspective API on the same
// texts.
//
//	go run ./scripts/agreement [--text COLUMN] [--as COLUMN=ATTRIBUTE]... [--at 0.5,0.7,0.8,0.9] FILE...
//
// A file holds one text per row, with the scores that the Perspective API gave it: CSV with a header row (.csv) or
// JSON Lines (any other name). A column is an attribute if it is named like one, in any case; --as maps other names.
// The text is in the column "text" unless --text says otherwise. Duplicate texts are counted once. Texts that are blank
// or larger than the API accepts are left out, and so are scores that are not numbers from 0 to 1.
//
// JSON Lines may also be the log of moderation_compare: lines with the members "theirs" and "ours" already hold both
// scores, and nothing is classified. Other lines of a log are ignored.
//
// For each attribute it prints the number of texts, the rank correlation (Spearman), and the median and the 90th
// percentile of the distance between the two scores. Then, for each threshold:
//
//	THEIRS, OURS  the share of the texts that reaches the threshold by their score, and by ours
//	AGREE         the share of the texts that is on the same side of the threshold by both scores
//	FOUND         of the texts that reach it by their score, the share that also does by ours
//	SHARED        of the texts that reach it by our score, the share that also does by theirs
//	KAPPA         Cohen's kappa: the agreement beyond chance
//	AUC           how often our score of a text that reaches it by theirs is above that of a text that does not
//
// Texts are neither printed nor kept. No server is needed: the scores are those of comments:analyze with its defaults.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/caddy-moderation/caddy-moderation/caddymod/commentanalyzer"
	"github.com/caddy-moderation/caddy-moderation/engine"
	"github.com/caddy-moderation/caddy-moderation/engine/evaluate"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "agreement:", err)
		os.Exit(1)
	}
}

// scoresOf holds both scores of each text for one attribute.
type scoresOf struct{ theirs, ours []float64 }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("agreement", flag.ContinueOnError)
	text := flags.String("text", "text", "the column with the text")
	at := flags.String("at", "0.5,0.7,0.8,0.9", "thresholds, with commas")
	as := map[string]string{}
	flags.Func("as", "COLUMN=ATTRIBUTE: a column that is not named like its attribute", func(value string) error {
		column, attribute, ok := strings.Cut(value, "=")
		if !ok {
			return fmt.Errorf("it must be COLUMN=ATTRIBUTE")
		}
		as[column] = attribute
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return fmt.Errorf("give a file with scores")
	}
	var thresholds []float64
	for _, one := range strings.Split(*at, ",") {
		threshold, err := strconv.ParseFloat(one, 64)
		if err != nil {
			return fmt.Errorf("%q is no threshold", one)
		}
		thresholds = append(thresholds, threshold)
	}
	classifier, err := engine.New(engine.Options{})
	if err != nil {
		return err
	}
	found := map[string]*scoresOf{}
	add := func(name string, theirs, ours float64) {
		if !(theirs >= 0 && theirs <= 1) {
			return
		}
		if found[name] == nil {
			found[name] = new(scoresOf)
		}
		found[name].theirs = append(found[name].theirs, theirs)
		found[name].ours = append(found[name].ours, ours)
	}
	scores := commentanalyzer.NewScores(classifier.Version())
	seen := map[string]bool{}
	for _, name := range flags.Args() {
		err := read(name, func(row map[string]any) error {
			if theirs, ours, ok := compared(row); ok {
				for attribute, score := range theirs {
					if ours, ok := ours[attribute].(float64); ok {
						add(attribute, number(score), ours)
					}
				}
				return nil
			}
			content, _ := row[*text].(string)
			if strings.TrimSpace(content) == "" || len(content) > commentanalyzer.MaxTextBytes || seen[content] {
				return nil
			}
			seen[content] = true
			classified, err := classifier.Classify(ctx, content)
			if err != nil {
				return err
			}
			for column, value := range row {
				attribute := strings.ToUpper(column)
				if other, ok := as[column]; ok {
					attribute = other
				}
				if ours, ok := scores.Score(attribute, &classified.Attributes); ok {
					add(attribute, number(value), ours)
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("no text with a score was found; name the columns with --text and --as")
	}
	fmt.Fprintf(out, "Model %s\n", classifier.Version())
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if err := found[name].report(out, name, thresholds); err != nil {
			return err
		}
	}
	return nil
}

// number returns a score from a file, where it may be a number or a string. It is NaN where there is none.
func number(value any) float64 {
	switch value := value.(type) {
	case float64:
		return value
	case string:
		if score, err := strconv.ParseFloat(value, 64); err == nil {
			return score
		}
	}
	return math.NaN()
}

// report prints the figures of one attribute.
func (s *scoresOf) report(out io.Writer, name string, thresholds []float64) error {
	distances := make([]float64, len(s.ours))
	for i := range distances {
		distances[i] = math.Abs(s.ours[i] - s.theirs[i])
	}
	slices.Sort(distances)
	fmt.Fprintf(out, "\n%s  texts %d  Spearman %s  median distance %.3f  nine of ten below %.3f\n",
		name, len(distances), figure("%.3f", evaluate.Spearman(s.theirs, s.ours)),
		distances[len(distances)/2], distances[len(distances)*9/10])
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "AT\tTHEIRS\tOURS\tAGREE\tFOUND\tSHARED\tKAPPA\tAUC\t")
	for _, threshold := range thresholds {
		var both, theirs, ours, n float64
		scored := make([]evaluate.Scored, len(s.ours))
		for i := range s.ours {
			n++
			scored[i] = evaluate.Scored{Score: s.ours[i], Positive: s.theirs[i] >= threshold}
			switch {
			case s.theirs[i] >= threshold && s.ours[i] >= threshold:
				both++
			case s.theirs[i] >= threshold:
				theirs++
			case s.ours[i] >= threshold:
				ours++
			}
		}
		theirs, ours = theirs+both, ours+both
		agree := (n - theirs - ours + 2*both) / n
		chance := (theirs*ours + (n-theirs)*(n-ours)) / (n * n)
		fmt.Fprintf(table, "%v\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", threshold,
			percent(theirs, n), percent(ours, n), percent(agree*n, n), percent(both, theirs), percent(both, ours),
			figure("%.2f", (agree-chance)/(1-chance)), figure("%.3f", evaluate.AUC(scored)))
	}
	return table.Flush()
}

func percent(part, whole float64) string { return figure("%.1f%%", 100*part/whole) }

// figure writes a number; "n/a" where it has no meaning.
func figure(format string, value float64) string {
	if math.IsNaN(value) {
		return "n/a"
	}
	return fmt.Sprintf(format, value)
}
