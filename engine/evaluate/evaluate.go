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

// DefaultAttributeThreshold is the default threshold of attributes, which have none in the service.
const DefaultAttributeThreshold = 0.5

// Options configure [Run]. The zero value stands for the defaults.
type Options struct {
	// Jobs is the number of texts that are moderated at the same time. Default: GOMAXPROCS, the number of processors.
	Jobs int
	// Kinds selects the rows of these kinds. Default: all rows.
	Kinds []string
	// Misses is the maximum number of misses that the report lists of each label, and of the themes. Default: none.
	Misses int
	// AttributeThresholds holds, per attribute, the probability above which a text is flagged. The thresholds of the
	// categories are those of the engine's [engine.Policy]. Default: [DefaultAttributeThreshold].
	AttributeThresholds [engine.NumAttributes]float64
	// HarmShare is the share of harmful texts to which the probabilities are moved, as [engine.Request.HarmShare] says.
	// Default: 0, the share that the classifier is calibrated for.
	HarmShare float64
	// Progress, unless nil, is called now and then with the number of rows moderated so far, always from the goroutine
	// of Run.
	Progress func(rows int)
}

// batchSize is the number of rows that are read before they are moderated. It bounds the texts in memory.
const batchSize = 256

// Run moderates rows and reports on the verdicts. The same rows give the same report, whatever the number of jobs.
//
// If rows yields errors, Run reports nothing: it reads on to find more of them and returns [Mistakes]. It also
// returns an error if there are no rows, if the engine fails, and if ctx ends.
func Run(ctx context.Context, e *engine.Engine, rows iter.Seq2[Row, error], o Options) (*Report, error) {
	if o.Jobs <= 0 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	for i := range o.AttributeThresholds {
		if o.AttributeThresholds[i] == 0 {
			o.AttributeThresholds[i] = DefaultAttributeThreshold
		}
	}
	t := newTally(e, &o)
	var batch []Row
	flush := func() error {
		results, err := moderateAll(ctx, e, batch, &o)
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
	kinds := make(map[string]bool) // the kinds that are left out
	for row, err := range rows {
		if err != nil {
			mistakes.add(err)
			continue
		}
		switch {
		case len(mistakes.First) > 0: // only look for more mistakes
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
		return nil, noRowsError(o.Kinds, kinds)
	}
	return t.report(), nil
}

// noRowsError says why no row is left to moderate.
func noRowsError(wanted []string, have map[string]bool) error {
	delete(have, "")
	switch {
	case len(wanted) == 0:
		return errors.New("there are no rows")
	case len(have) == 0:
		return fmt.Errorf("no row is of kind %s: no row has a \"kind\"", strings.Join(wanted, ", "))
	}
	const maxNames = 30
	names := slices.Sorted(maps.Keys(have))
	list := strings.Join(names[:min(maxNames, len(names))], ", ")
	if len(names) > maxNames {
		list += fmt.Sprintf(" and %d more", len(names)-maxNames)
	}
	return fmt.Errorf("no row is of kind %s; there are %s", strings.Join(wanted, ", "), list)
}

// Mistakes is the error of [Run] for rows that are wrong.
type Mistakes struct {
	// First holds the errors of the first such rows, at most ten.
	First []error
	// More is the number of other such rows.
	More int
}

// maxMistakes is the maximum number of mistakes that are listed.
const maxMistakes = 10

func (m *Mistakes) add(err error) {
	if len(m.First) == maxMistakes {
		m.More++
		return
	}
	m.First = append(m.First, err)
}

// Error lists the mistakes, one per line.
func (m *Mistakes) Error() string {
	text := errors.Join(m.First...).Error()
	if m.More > 0 {
		text += fmt.Sprintf("\nand %d more mistakes", m.More)
	}
	return text
}

// Unwrap returns the first mistakes.
func (m *Mistakes) Unwrap() []error { return m.First }

// verdict is the engine's answer for a row.
type verdict struct {
	scores     [NumLabels]float64
	flagged    [NumLabels]bool
	harmful    bool   // whether any category is flagged
	language   string // that was detected
	theme      engine.ThemeResult
	paraphrase engine.ThemeResult
}

// moderateAll moderates rows, o.Jobs at a time.
func moderateAll(ctx context.Context, e *engine.Engine, rows []Row, o *Options) ([]verdict, error) {
	verdicts := make([]verdict, len(rows))
	errs := make([]error, len(rows))
	var next atomic.Int64
	var failed atomic.Bool
	var workers sync.WaitGroup
	for range min(o.Jobs, len(rows)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(rows) && !failed.Load(); i = int(next.Add(1)) - 1 {
				if verdicts[i], errs[i] = moderateRow(ctx, e, &rows[i], o); errs[i] != nil {
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

// moderateRow moderates a row as the service would.
func moderateRow(ctx context.Context, e *engine.Engine, row *Row, o *Options) (v verdict, err error) {
	if err := ctx.Err(); err != nil {
		return v, err
	}
	request := engine.Request{Content: row.Text, HarmShare: o.HarmShare}
	if row.Language != "" {
		request.Languages = []string{row.Language}
	}
	if row.Theme != "" {
		request.Themes = append(request.Themes, row.Theme)
	}
	if row.Paraphrase != "" {
		request.Themes = append(request.Themes, row.Paraphrase)
	}
	result, err := e.Moderate(ctx, request)
	if err != nil {
		return v, fmt.Errorf("%s:%d: %w", row.File, row.Line, err)
	}
	v.language = result.Language.Tag
	for c, r := range result.Categories {
		v.scores[c], v.flagged[c] = r.Probability, r.Flagged
		v.harmful = v.harmful || r.Flagged
	}
	for a, p := range result.Attributes {
		v.scores[engine.NumCategories+a], v.flagged[engine.NumCategories+a] = p, p > o.AttributeThresholds[a]
	}
	if len(result.Themes) > 0 {
		// There is only one result for a paraphrase that equals the theme.
		v.theme, v.paraphrase = result.Themes[0], result.Themes[len(result.Themes)-1]
	}
	return v, nil
}
