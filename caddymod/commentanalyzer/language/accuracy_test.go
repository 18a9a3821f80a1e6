// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package language_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/caddy-moderation/caddy-moderation/caddymod/commentanalyzer/language"
)

// data is the folder of the public sources that docs/training.md describes, which are not part of the repository.
var data = flag.String("data", "", "folder with the folder moderation, to measure how often the guess is right")

// TestAccuracy measures on the first 8,000 texts of sets in one language each:
//
//	go test ./caddymod/commentanalyzer/language -run Accuracy -v -data DIR
func TestAccuracy(t *testing.T) {
	t.Parallel()
	if *data == "" {
		t.Skip("needs -data")
	}
	for _, set := range []struct {
		name, label, want string
		least             float64
	}{
		{"conda_dota", "", "en", 0.97}, // chat in a game, 16 characters in the middle
		{"clean_tweets", "", "en", 0.98},
		{"goemotions_reddit", "", "en", 0.99},
		{"clean_intents_clinc", "", "en", 0.99},
		{"convabuse", "", "en", 0.97},
		{"surge_toxicity", "", "en", 0.98},
		{"mlma_fr_ar", "lang:fr", "fr", 0.8}, // tweets, many with English in them
		{"mlma_fr_ar", "lang:ar", "ar", 0.98},
	} {
		file, err := os.Open(filepath.Join(*data, "moderation", set.name+".jsonl.gz"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		unzipped, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(unzipped)
		lines.Buffer(nil, 4<<20)
		right, all := 0, 0
		for all < 8000 && lines.Scan() {
			var row struct {
				Text   string
				Labels map[string]float64
			}
			if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
				t.Fatal(err)
			}
			if set.label != "" && row.Labels[set.label] == 0 {
				continue
			}
			all++
			if got := language.Detect(row.Text)[0]; got == set.want || got == language.Undetermined {
				right++
			}
		}
		share := float64(right) / float64(all)
		t.Logf("%s %s: %.4f of %d texts are taken for %s", set.name, set.label, share, all, set.want)
		if share < set.least {
			t.Errorf("%s: %.4f, want at least %v", set.name, share, set.least)
		}
	}
}
