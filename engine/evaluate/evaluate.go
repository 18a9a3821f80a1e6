// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// DefaultAttributeThreshold is the threshold of attributes, which have none in the service.
const DefaultAttributeThreshold = 0.5

// Options configure [Run]. The zero value stands for the defaults.
type Options struct {
	// Jobs is how many texts are judged at the same time. 0 means the number of processors, GOMAXPROCS.
	Jobs int
	// Kinds are the kinds of rows to judge. None means all rows.
	Kinds []string
	// Misses is how many misses of each label and of the themes the report lists. 0 means none.
	Misses int
	// AttributeThresholds hold, per attribute, the probability above which a text counts as flagged; 0 means
	// [DefaultAttributeThreshold]. Those of the categories are the judge's, see [engine.Policy].
	AttributeThresholds [engine.NumAttributes]float64
	// Progress is called now and then, always from the goroutine of Run, with the number of rows judged so far.
	Progress func(rows int)
}

// batchSize is how many rows are read before they are judged. It bounds the texts in memory.
const batchSize = 256

// Run judges rows and reports. The same rows give the same report, whatever the number of jobs.
//
// When rows holds errors, nothing is reported: Run reads on to find more of them and returns [Mistakes]. It also fails
// when there is no row to judge, when the judge cannot judge, and when ctx ends.
func Run(ctx context.Context, judge *engine.Engine, rows iter.Seq2[Row, error], o Options) (*Report, error) {
	if o.Jobs <= 0 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	for i := range o.AttributeThresholds {
		if o.AttributeThresholds[i] == 0 {
			o.AttributeThresholds[i] = DefaultAttributeThreshold
		}
	}
	t := newTally(judge, &o)
	var batch []Row
	flush := func() error {
		results, err := judgeAll(ctx, judge, batch, &o)
		if err != nil {
			return err
		}
		for i := range batch {
			t.add(&batch[i], &results[i])
		}
		batch = batch[:0]
		if o.Progress != nil {
			o.Progress(t.rows)
		}
		return nil
	}
	var mistakes Mistakes
	kinds := make(map[string]bool) // those that are left out
	for row, err := range rows {
		if err != nil {
			mistakes.add(err)
			continue
		}
		switch {
		case len(mistakes.First) > 0: // nothing will be reported
		case len(o.Kinds) > 0 && !slices.Contains(o.Kinds, row.Kind):
			kinds[row.Kind] = true
		case row.Rejected != "":
			t.reject(&row)
		default:
			batch = append(batch, row)
		}
		if len(batch) == batchSize {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case len(mistakes.First) > 0:
		return nil, &mistakes
	}
	if err := flush(); err != nil {
		return nil, err
	}
	if t.rows == 0 && t.rejected.Rows == 0 {
		return nil, noRows(o.Kinds, kinds)
	}
	return t.report(), nil
}

// noRows says why there is nothing to judge.
func noRows(wanted []string, have map[string]bool) error {
	delete(have, "")
	switch {
	case len(wanted) == 0:
		return errors.New("there are no rows")
	case len(have) == 0:
		return fmt.Errorf("no row is of kind %s: no row has a \"kind\"", strings.Join(wanted, ", "))
	}
	const most = 30
	names := slices.Sorted(maps.Keys(have))
	list := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		list += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return fmt.Errorf("no row is of kind %s; there are %s", strings.Join(wanted, ", "), list)
}

// Mistakes are the errors of rows.
type Mistakes struct {
	// First are the first ones, at most ten.
	First []error
	// More is how many others there are.
	More int
}

// mostMistakes is how many mistakes are told.
const mostMistakes = 10

func (m *Mistakes) add(err error) {
	if len(m.First) == mostMistakes {
		m.More++
		return
	}
	m.First = append(m.First, err)
}

// Error lists the mistakes, one a line.
func (m *Mistakes) Error() string {
	text := errors.Join(m.First...).Error()
	if m.More > 0 {
		text += fmt.Sprintf("\nand %d more mistakes", m.More)
	}
	return text
}

// Unwrap returns the first mistakes.
func (m *Mistakes) Unwrap() []error { return m.First }

// verdict is what the judge says of a row.
type verdict struct {
	scores     [NumLabels]float64
	flagged    [NumLabels]bool
	harmful    bool // a category is flagged
	theme      engine.ThemeResult
	paraphrase engine.ThemeResult
}

// judgeAll judges rows, several at a time.
func judgeAll(ctx context.Context, judge *engine.Engine, rows []Row, o *Options) ([]verdict, error) {
	verdicts := make([]verdict, len(rows))
	errs := make([]error, len(rows))
	var next atomic.Int64
	var failed atomic.Bool
	var workers sync.WaitGroup
	for range min(o.Jobs, len(rows)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(rows) && !failed.Load(); i = int(next.Add(1)) - 1 {
				if verdicts[i], errs[i] = judgeOne(ctx, judge, &rows[i], o); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return verdicts, nil
}

// judgeOne judges a row as the service would.
func judgeOne(ctx context.Context, judge *engine.Engine, row *Row, o *Options) (v verdict, err error) {
	if err := ctx.Err(); err != nil {
		return v, err
	}
	request := engine.Request{Content: row.Text}
	if row.Theme != "" {
		request.Themes = append(request.Themes, row.Theme)
	}
	if row.Paraphrase != "" {
		request.Themes = append(request.Themes, row.Paraphrase)
	}
	result, err := judge.Moderate(ctx, request)
	if err != nil {
		return v, fmt.Errorf("%s:%d: %w", row.File, row.Line, err)
	}
	for c, r := range result.Categories {
		v.scores[c], v.flagged[c] = r.Probability, r.Flagged
		v.harmful = v.harmful || r.Flagged
	}
	for a, p := range result.Attributes {
		v.scores[engine.NumCategories+a], v.flagged[engine.NumCategories+a] = p, p > o.AttributeThresholds[a]
	}
	if len(result.Themes) > 0 {
		// A paraphrase that repeats the theme is not judged a second time.
		v.theme, v.paraphrase = result.Themes[0], result.Themes[len(result.Themes)-1]
	}
	return v, nil
}
