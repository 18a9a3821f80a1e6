// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"fmt"
	"io"
	"io/fs"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// ReadMentions reads neutral and kind sentences that name groups of people: a sheet as in [ReadSheet], all rows of
// which are harmless. An error names the file and the sentence.
func ReadMentions(files fs.FS, name string) ([]Example, error) {
	rows, err := ReadSheet(files, name)
	if err != nil {
		return nil, err
	}
	seen := map[string]int{}
	for i := range rows {
		key := Key(rows[i].Text)
		if first, twice := seen[key]; twice {
			return nil, fmt.Errorf("%s: the sentences %d and %d are the same", name, first, i+1)
		}
		seen[key] = i + 1
		if !rows[i].Harmless() || rows[i].Group > 0 {
			return nil, fmt.Errorf("%s: sentence %d must be harmless and no contrast", name, i+1)
		}
	}
	return rows, nil
}

// Mentions writes a section on neutral sentences that name groups of people in the language of the model, none of which
// should be flagged. It names those that are: unlike the answers of an examination they may be looked at, because no
// good text that names people may ever be flagged.
func Mentions(w io.Writer, m *model.Model, rows []Example) {
	all := predict(m, rows)
	flagged := 0
	highest := 0.0
	for i := range all {
		if all[i].flagged() {
			flagged++
		}
		highest = max(highest, all[i].probabilities[hate])
	}
	fmt.Fprintf(w, "## Neutral mentions of groups\n\n%d neutral sentences: %d flagged (%.1f %%). "+
		"Highest probability of hate %.3f.\n\n",
		len(all), flagged, 100*float64(flagged)/float64(max(len(all), 1)), highest)
	if flagged == 0 {
		return
	}
	fmt.Fprintf(w, "| sentence | register | category | probability | text |\n|---|---|---|---|---|\n")
	for i := range all {
		for h := range categories {
			if p := all[i].probabilities[h]; p > Thresholds[h] {
				fmt.Fprintf(w, "| %d | %s | %s | %.3f | %s |\n", i+1, all[i].Kind, model.HeadNames[h], p, all[i].Text)
			}
		}
	}
	fmt.Fprintln(w)
}
