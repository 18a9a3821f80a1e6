// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train_test

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

// TestSheets guards against rows of the corpus in other languages that are malformed, stand there twice, or are in the
// examination.
func TestSheets(t *testing.T) {
	t.Parallel()
	corpus := os.DirFS("corpus")
	for _, language := range model.Languages()[1:] {
		names, err := fs.Glob(corpus, language+"/*.txt")
		if err != nil || len(names) == 0 {
			t.Skipf("the corpus is missing: %v", err)
		}
		seen := map[string]string{}
		harmful := 0
		for _, name := range names {
			rows, err := train.ReadSheet(corpus, name)
			if err != nil {
				t.Error(err)
			}
			for i := range rows {
				key := train.Key(rows[i].Text)
				if in, twice := seen[key]; twice {
					t.Errorf("%s: %q is in %s, too", name, rows[i].Text, in)
				}
				seen[key] = name
				if !rows[i].Harmless() {
					harmful++
				}
			}
		}
		if len(seen) < 2000 || harmful < len(seen)/3 {
			t.Errorf("%s: %d texts, %d of them harmful", language, len(seen), harmful)
		}
		exam, err := train.ReadSheet(os.DirFS("exam"), language+".txt")
		if err != nil {
			continue // not all languages have one
		}
		for i := range exam {
			if in, ok := seen[train.Key(exam[i].Text)]; ok {
				t.Errorf("a text of the examination in %s is in %s", language, in)
			}
		}
		if _, err := train.ReadGlossary(corpus, language); err != nil {
			t.Error(err)
		}
	}
}

func TestReadSheetRefuses(t *testing.T) {
	t.Parallel()
	for name, sheet := range map[string]string{
		"a row without letters":    "@ kind voice\nhello\n",
		"unknown letters":          "@ kind voice\nhq|hello\n",
		"an empty text":            "@ kind voice\nh| \n",
		"a contrast with nothing":  "@ kind voice\n+h|hello\n",
		"a section without a name": "@ kind\nh|hello\n",
	} {
		files := fstest.MapFS{"xx/a.txt": {Data: []byte(sheet)}}
		if _, err := train.ReadSheet(files, "xx/a.txt"); err == nil || !strings.Contains(err.Error(), "xx/a.txt, line ") {
			t.Errorf("%s: got the error %v, want one with the line", name, err)
		}
	}
	files := fstest.MapFS{"xx/a.txt": {Data: []byte("@ insult a_voice\nhr|eins\n+-|zwei\n-|drei\n\nv|vier\n")}}
	rows, err := train.ReadSheet(files, "xx/a.txt")
	if err != nil || len(rows) != 4 || rows[0].Group != 1 || rows[1].Group != 1 || rows[2].Group != 0 ||
		!rows[0].Positive(0) || !rows[0].Positive(1) || !rows[1].Harmless() || rows[3].Kind != "insult" {
		t.Errorf("got %+v, %v", rows, err)
	}
}

// TestGlossary guards against texts that are turned into another language and lose their marks, their capitals or
// their negation.
func TestGlossary(t *testing.T) {
	t.Parallel()
	g, err := train.ReadGlossary(fstest.MapFS{
		path.Join("xx", "gloss", "g01.txt"): {Data: []byte("du you\nbist are\nnicht not\nDumm stupid\n")},
	}, "xx")
	if err != nil {
		t.Fatal(err)
	}
	got, share := g.Translate("You aren't STUPID, Bob!", rand.New(rand.NewPCG(1, 2)))
	if got != "Du bist nicht DUMM, Bob!" || share != 0.8 {
		t.Errorf("got %q, %v of the words", got, share)
	}
	if _, err := train.ReadGlossary(fstest.MapFS{"xx/gloss/g01.txt": {Data: []byte("du\n")}}, "xx"); err == nil {
		t.Error("a line of one word: got no error")
	}
	if g, err := train.ReadGlossary(fstest.MapFS{}, "xx"); g != nil || err != nil {
		t.Errorf("no glossary: got %v, %v", g, err)
	}
}
