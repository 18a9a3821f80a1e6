// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/klauspost/compress/gzip"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

// corpus writes own short sentences: the words that matter recur, so that a small model can learn them.
func corpus(t *testing.T) fs.FS {
	t.Helper()
	who := []string{"neighbour", "teacher", "driver", "cousin", "baker", "doctor", "painter", "singer", "farmer", "clerk"}
	where := []string{"at the market", "near the river", "on the bus", "in the garden", "by the station", "at work", "over lunch", "after school"}
	var lines strings.Builder
	n := 0
	add := func(text string, hate, harassment int) {
		n++
		fmt.Fprintf(&lines, "{\"text\":%q,\"labels\":{\"hate\":%d,\"harassment\":%d,\"self-harm\":0,\"sexual\":0,\"violence\":0},\"kind\":\"k%d\"}\n", text, hate, harassment, n%5)
	}
	for _, w := range who {
		for _, p := range where {
			add(fmt.Sprintf("I met the %s %s and we talked about bread.", w, p), 0, 0)
			add(fmt.Sprintf("The %s %s was kind to everybody.", w, p), 0, 0)
			add(fmt.Sprintf("You stupid %s, everyone %s laughs at you, you idiot.", w, p), 0, 1)
			add(fmt.Sprintf("Those foreigners %s are vermin, said no %s ever, but I do.", p, w), 1, 0)
		}
	}
	return fstest.MapFS{"everyday.jsonl": {Data: []byte(lines.String())}}
}

func makeModel(t *testing.T, all []train.Example) []byte {
	t.Helper()
	pool := train.NewPool(all, true)
	learn := pool.Splits[train.Training]
	learn = append(append(learn, train.Augment(learn, 0.2, 1)...), train.Surround(learn, 0.2, 1)...)
	fitted := train.Fit(learn, train.Options{Buckets: 1 << 12, Rows: 10_000, Seed: 1})
	fitted.Header.TrainingDigest = pool.Digest
	raw, err := fitted.File()
	if err != nil {
		t.Fatal(err)
	}
	file, err := train.Calibrate(raw, pool.Splits[train.Calibration], 0.02, 1)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTheSameDataGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	read := func() []train.Example {
		all, err := train.Read(corpus(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	a, b := makeModel(t, read()), makeModel(t, read())
	if !bytes.Equal(a, b) {
		t.Fatal("two trainings on the same data differ")
	}
	m, err := model.Load(bytes.NewReader(a))
	if err != nil {
		t.Fatal(err)
	}
	bad, good := m.Probabilities("You stupid plumber, you idiot."), m.Probabilities("The plumber talked about bread.")
	if bad[1] <= good[1] || bad[1] < 0.3 || good[1] > 0.1 {
		t.Errorf("harassment is %v where it was learned and %v where not", bad[1], good[1])
	}
	var report bytes.Buffer
	all := read()
	train.Evaluate(&report, m, all)
	for _, want := range []string{"| hate | 320 | 80 |", "| harassment | 320 | 80 |", "| everyday | 320 | 160 |"} {
		if !strings.Contains(report.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, report.String())
		}
	}
}

func TestDuplicatesMergeAndSplitsHold(t *testing.T) {
	t.Parallel()
	all, err := train.Read(corpus(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	copied := append([]train.Example{}, all...)
	for _, e := range all {
		// The same text in capitals and with other punctuation is the same text, and says nothing new here.
		e.Text, e.Source, e.InCorpus = strings.ToUpper(e.Text)+"!!", "other", false
		copied = append(copied, e)
	}
	once, twice := train.NewPool(all, false), train.NewPool(copied, false)
	for s := range once.Splits {
		if len(once.Splits[s]) != len(twice.Splits[s]) {
			t.Errorf("split %d has %d texts, and %d with duplicates", s, len(once.Splits[s]), len(twice.Splits[s]))
		}
		if len(once.Splits[s]) == 0 {
			t.Errorf("split %d is empty", s)
		}
	}
	if once.Digest != twice.Digest {
		t.Error("duplicates change the digest")
	}
}

func TestWholeFilesAndGroupsAreHeldBack(t *testing.T) {
	t.Parallel()
	var all []train.Example
	for i := range 400 {
		all = append(all, train.Example{Text: fmt.Sprint("post ", i), Source: "posts", InCorpus: true})
		all = append(all, train.Example{Text: fmt.Sprint("contrast ", i), Source: "contrast", Group: 1 + i/4, InCorpus: true})
	}
	pool := train.NewPool(all, false)
	groups := map[int]train.Split{}
	for s, examples := range pool.Splits {
		for _, e := range examples {
			if e.Source == "posts" && train.Split(s) != train.Test {
				t.Fatalf("a row of posts is in split %d", s)
			}
			if e.Group == 0 {
				continue
			}
			if in, ok := groups[e.Group]; ok && in != train.Split(s) {
				t.Fatalf("group %d is torn apart", e.Group)
			}
			groups[e.Group] = train.Split(s)
		}
	}
}

func TestLabelsAreMaskedWhereASourceIsSilent(t *testing.T) {
	t.Parallel()
	pack := func(lines string) *fstest.MapFile {
		var b bytes.Buffer
		zw := gzip.NewWriter(&b)
		if _, err := zw.Write([]byte(lines)); err != nil {
			t.Fatal(err)
		}
		if err := zw.Close(); err != nil {
			t.Fatal(err)
		}
		return &fstest.MapFile{Data: b.Bytes()}
	}
	data := fstest.MapFS{
		"moderation/sms_spam.jsonl.gz":   pack(`{"text":"win a prize","labels":{"spam":1}}` + "\n" + `{"text":"home at six","labels":{"spam":0}}` + "\n"),
		"moderation/stormfront.jsonl.gz": pack(`{"text":"something","labels":{"hate":1}}` + "\n"),
	}
	annotations := fstest.MapFS{"annotations.tsv": {Data: []byte(train.Key("something") + "\t-\n")}}
	all, err := train.Read(annotations, data)
	if err != nil {
		t.Fatal(err)
	}
	pool := train.NewPool(all, true)
	found := map[string]train.Example{}
	for _, s := range pool.Splits {
		for _, e := range s {
			found[e.Text] = e
		}
	}
	const hate, toxicity, spam = 0, 5, 12
	if e := found["win a prize"]; !e.Positive(spam) || e.Labelled(toxicity) {
		t.Errorf("spam: %v", e.Labels)
	}
	if e := found["home at six"]; e.Positive(spam) || !e.Labelled(spam) || !e.Harmless() {
		t.Errorf("no spam: %v", e.Labels)
	}
	if e := found["something"]; !e.InCorpus || e.Positive(hate) {
		t.Errorf("what was read for this project is overruled by a scraped label: %v", e.Labels)
	}
}

func TestABrokenLineIsNamed(t *testing.T) {
	t.Parallel()
	_, err := train.Read(fstest.MapFS{"own.jsonl": {Data: []byte("{\"text\":\"a\",\"labels\":{\"hate\":1}}\n{broken\n")}}, nil)
	if err == nil || !strings.Contains(err.Error(), "own.jsonl, line 2") {
		t.Errorf("error %v does not name the line", err)
	}
}

func TestDisguisesKeepTheirLetters(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	const content = "Nobody should believe everything that people write on walls"
	changed := 0
	for range 200 {
		got := train.Disguise(content, r)
		if got != content {
			changed++
		}
		letters := 0
		for _, c := range got {
			if unicode.IsLetter(c) || unicode.IsDigit(c) || strings.ContainsRune("@!$*", c) {
				letters++
			}
		}
		if letters < 35 {
			t.Errorf("too little is left: %q", got)
		}
	}
	if changed < 150 {
		t.Errorf("only %d of 200 copies are disguised", changed)
	}
}

func TestTheProjectsOwnTextIsWellFormed(t *testing.T) {
	t.Parallel()
	all, err := train.Read(os.DirFS("corpus"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10_000 {
		t.Errorf("only %d texts", len(all))
	}
	for _, e := range all {
		if strings.TrimSpace(e.Text) == "" {
			t.Errorf("an empty text in %s", e.Source)
		}
		for h := range 5 {
			if !e.Labelled(h) {
				t.Errorf("%s: %.40q lacks a label", e.Source, e.Text)
			}
		}
	}
}
