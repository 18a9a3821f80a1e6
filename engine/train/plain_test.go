// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

// Text that must not be trained on, or that is held out to measure, must be in no other split; and a text that a reader
// found harmful must not be taught as harmless because of the folder that it is in.
func TestOrdinaryTextGoesWhereItMay(t *testing.T) {
	t.Parallel()
	file := func(kind, word string) *fstest.MapFile {
		var lines strings.Builder
		for i := range 200 {
			fmt.Fprintf(&lines, `{"text":"%s %d is an ordinary text","kind":%q}`+"\n", word, i, kind)
		}
		return packed(t, lines.String())
	}
	data := fstest.MapFS{
		"plain/recipes.jsonl.gz":               file("recipe", "recipe"),
		"plain/religion.jsonl.gz":              file("scripture_islam", "scripture"),
		"plain/mixed_genres_gum.jsonl.gz":      file("learner_essay", "essay"),
		"plain/reddit_titles_2013.jsonl.gz":    file("forum_title", "title"),
		"plain/game_dialogue_fiction.jsonl.gz": file("game_dialogue", "game"),
		"plain/assistant_requests.jsonl.gz":    file("assistant_request", "request"),
		"plain/long_roleplay_game.jsonl.gz":    file("roleplay_game_speech", "dungeon"),
	}
	annotations := train.Key("recipe 7 is an ordinary text") + "\th\n" + train.Key("title 3 is an ordinary text") + "\t-\n" +
		train.Key("essay 5 is an ordinary text") + "\t-\n" + train.Key("request 5 is an ordinary text") + "\t-\n"
	all, err := train.Read(fstest.MapFS{"annotations.tsv": {Data: []byte(annotations)}}, data)
	if err != nil {
		t.Fatal(err)
	}
	count := func(ship bool, word string) (in [3]int) {
		for s, examples := range train.NewDataset(all, ship).Splits {
			for _, e := range examples {
				if strings.HasPrefix(e.Text, word+" ") {
					in[s]++
				}
			}
		}
		return in
	}
	for _, c := range []struct {
		word        string
		ship        bool
		trained     bool
		tested, all int
	}{
		{"recipe", false, true, -1, 200},
		{"recipe", true, true, -1, 200},
		{"scripture", false, false, 200, 200},
		{"scripture", true, true, -1, 200},
		{"essay", false, false, 200, 200},
		{"essay", true, false, 200, 200},
		{"title", true, true, -1, 1}, // the others may be harmful, and nobody has read them
		{"game", true, false, 0, 0},
		{"request", true, false, 200, 200}, // annotated or not
		{"dungeon", true, false, 200, 200}, // documents that nobody has read
	} {
		in := count(c.ship, c.word)
		if c.all > 1 && in[train.Training] > 0 != c.trained || c.tested >= 0 && in[train.Test] != c.tested ||
			in[0]+in[1]+in[2] != c.all {
			t.Errorf("%s, ship %v: got %v texts by split, want trained on %v, %d in the test (-1: some), %d in all",
				c.word, c.ship, in, c.trained, c.tested, c.all)
		}
	}
	for _, e := range all {
		if harmful := e.Text == "recipe 7 is an ordinary text"; e.Harmless() == harmful {
			t.Errorf("%q: got harmless %v, want %v", e.Text, e.Harmless(), !harmful)
		}
	}
}

func TestDocumentsAreCutAtTheEndsOfSentences(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 300 {
		fmt.Fprintf(&text, "This is sentence %d of the document. ", i)
	}
	whole := strings.TrimSpace(text.String())
	var joined []string
	for _, p := range train.Pieces([]train.Example{{Text: whole, Register: "long_court"}}) {
		if len(p.Text) > 1300 || !strings.HasPrefix(p.Text, "This is") || !strings.HasSuffix(p.Text, "document.") {
			t.Errorf("got a piece of %d bytes that begins %q and ends %q, want whole sentences, at most 1,300 bytes",
				len(p.Text), p.Text[:10], p.Text[len(p.Text)-10:])
		}
		joined = append(joined, p.Text)
	}
	if got := strings.Join(joined, " "); got != whole {
		t.Errorf("the pieces have %d bytes, want all %d", len(got), len(whole))
	}
	if got := train.Pieces([]train.Example{{Text: whole, Register: "religion"}}); len(got) != 1 {
		t.Errorf("a passage became %d pieces, want 1", len(got))
	}
}

// What is lost of a harmful text on its way into a document would teach that the rest of the document is harmful.
func TestATextIsWholeInsideItsDocument(t *testing.T) {
	t.Parallel()
	documents := []string{
		strings.Repeat("One sentence. And another! Is this one? ", 200),
		"a line without an end", "zwei Sätze. Über Käse.\nUnd eine Zeile", "",
	}
	const text = "die harmful täxt"
	r := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		size := r.IntN(9000)
		got := train.Insert(documents, text, size, r)
		before, after, found := strings.Cut(got, text)
		if !found {
			t.Fatalf("size %d: the document lost the text", size)
		}
		if !slices.ContainsFunc(documents, func(d string) bool {
			return strings.Contains(d, strings.TrimSpace(before)) && strings.Contains(d, strings.TrimSpace(strings.TrimPrefix(after, ".")))
		}) {
			t.Fatalf("size %d: what surrounds the text is not of the document: %.80q and %.80q", size, before, after)
		}
		if len(got) > size+200 {
			t.Fatalf("size %d: got %d bytes, want at most a sentence more", size, len(got))
		}
	}
}

func TestMiningFindsWhatLooksHarmful(t *testing.T) {
	t.Parallel()
	all, err := train.Read(smallCorpus(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	fitted := train.Fit(all, train.Options{Buckets: 1 << 12, Rows: 10_000, Seed: 1})
	var plain []train.Example
	for i := range 100 {
		text := fmt.Sprintf("The teacher baked bread number %d.", i)
		if i%20 == 0 {
			text = fmt.Sprintf("You stupid oven, you idiot, said recipe %d.", i)
		}
		plain = append(plain, train.Example{Text: text, Register: "recipes"})
	}
	hard, err := train.Mine(fitted, plain, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, e := range hard {
		if !e.Hard {
			t.Errorf("%q is not marked as a hard negative, want it marked", e.Text)
		}
		if strings.Contains(e.Text, "idiot") {
			found++
		}
	}
	if found == 0 || len(hard) > 25 {
		t.Errorf("got %d hard negatives, %d of them with an insult, want a few, and one with an insult", len(hard), found)
	}
}
