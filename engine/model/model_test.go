// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

var update = flag.Bool("update", false, "rewrite the golden scores")

// rowsOf makes a row for the word features of a text, with one weight for the first head.
func rowsOf(content string, weight int8) []model.Row {
	var s text.Scratch
	var f model.Features
	tokens := s.Tokenize(content)
	f.Extract(tokens)
	var rows []model.Row
	for i := range tokens {
		for _, h := range f.Word(i) {
			rows = append(rows, model.Row{Hash: h, Weights: [model.Heads]int8{weight, -weight}})
		}
	}
	return rows
}

// wordList makes words that all cost the same: so much that no other word is recovered as one of them.
func wordList(words ...string) []text.Word {
	var list []text.Word
	for _, w := range words {
		list = append(list, text.Word{Folded: w, Cost: 255})
	}
	return list
}

func header() model.Header {
	h := model.Header{Buckets: 64}
	for i := range h.Calibration {
		h.Calibration[i] = model.Calibration{Scale: 0.05, Alone: model.Curve{Large: 1}}
	}
	return h
}

func write(t *testing.T, h model.Header, rows []model.Row) []byte {
	t.Helper()
	var b bytes.Buffer
	clusters := map[uint64]uint16{model.WordHash([]byte("some")): 3}
	weights := model.Weights{Rows: rows, Clusters: clusters, Words: wordList("some", "words")}
	if err := model.Write(&b, h, weights); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func load(t *testing.T, file []byte) *model.Model {
	t.Helper()
	m, err := model.Load(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The vocabulary is there for speed alone: words in it, beyond its size and too long for it must have the probabilities
// that they have without it.
func TestWordListChangesNoProbability(t *testing.T) {
	t.Parallel()
	rows := slices.Concat(rowsOf("badword", 100), rowsOf("some", -30), rowsOf("extraordinarilylong", 50))
	clusters := map[uint64]uint16{model.WordHash([]byte("some")): 3, model.WordHash([]byte("here")): 4}
	with := func(words ...string) *model.Model {
		var b bytes.Buffer
		weights := model.Weights{Rows: rows, Clusters: clusters, Words: wordList(words...)}
		if err := model.Write(&b, header(), weights); err != nil {
			t.Fatal(err)
		}
		return load(t, b.Bytes())
	}
	without := with()
	for _, words := range [][]string{
		{"badword"},
		{"badword", "some", "here", "you", "not"},
		{"badword", "badword", "", "extraordinarilylong"},
	} {
		m := with(words...)
		for _, content := range []string{
			"badword", "some badword here", "You are not a BADWORD, some are here.", "extraordinarilylong b4dword",
			"badwords here and some", strings.Repeat("some other words, badword. ", 300),
		} {
			if got, want := m.Probabilities(content), without.Probabilities(content); got != want {
				t.Errorf("with the words %q, %.40q has %v, want %v as without them", words, content, got, want)
			}
		}
	}
}

// The dictionary must survive the file: words that begin alike share their letters in it.
func TestDisguisedWordsCountAsTheWordsTheyHide(t *testing.T) {
	t.Parallel()
	var list []text.Word
	for i, w := range []string{"you", "are", "an", "badword", "badwords", "bad", "été", "2024", "a"} {
		list = append(list, text.Word{Folded: w, Cost: uint8(40 + i)})
	}
	var b bytes.Buffer
	if err := model.Write(&b, header(), model.Weights{Rows: rowsOf("badword", 100), Words: list}); err != nil {
		t.Fatal(err)
	}
	m := load(t, b.Bytes())
	want := m.Probabilities("you are badword")
	if want[0] < 0.7 {
		t.Fatalf("the word in clear has probability %v, want at least 0.7", want[0])
	}
	for _, content := range []string{
		"you are bdaword", "you are badwrd", "youarebadword", "you are bbaaddwwoorrdd", "you a r e b.a.d.w.o.r.d",
	} {
		if got := m.Probabilities(content); got[0] < 0.7 {
			t.Errorf("%q has probability %v, want at least 0.7; in clear it is %v", content, got[0], want[0])
		}
	}
}

func TestWeightsSurviveTheFile(t *testing.T) {
	t.Parallel()
	m := load(t, write(t, header(), rowsOf("badword", 100)))
	bad, good := m.Probabilities("a badword here"), m.Probabilities("something else here")
	if !(bad[0] > 0.9 && bad[1] < 0.1) {
		t.Errorf("the learned word has probabilities %v and %v, want above 0.9 and below 0.1", bad[0], bad[1])
	}
	if good[0] != 0.5 || good[1] != 0.5 {
		t.Errorf("unknown words have probabilities %v and %v, want 0.5", good[0], good[1])
	}
}

func TestTheSameRowsGiveTheSameBytesAndVersion(t *testing.T) {
	t.Parallel()
	a, b := write(t, header(), rowsOf("some words", 7)), write(t, header(), rowsOf("some words", 7))
	if !bytes.Equal(a, b) {
		t.Error("two files of the same rows differ")
	}
	const prefix = "cascade-1-"
	v := load(t, a).Version()
	if !strings.HasPrefix(v, prefix) || len(v) != len(prefix)+8 || v != load(t, b).Version() {
		t.Errorf("version %q, want cascade-1- and eight digits, the same for the same bytes", v)
	}
	if load(t, a).Version() == load(t, write(t, header(), rowsOf("some words", 8))).Version() {
		t.Error("other weights have the same version")
	}
}

func TestADamagedFileIsRefused(t *testing.T) {
	t.Parallel()
	good := write(t, header(), rowsOf("some words", 7))
	for i := 0; i < len(good); i += 7 {
		bad := slices.Clone(good)
		bad[i] ^= 0x40
		if _, err := model.Load(bytes.NewReader(bad)); err == nil {
			t.Fatalf("a file with byte %d altered was loaded, want an error", i)
		}
	}
	for _, cut := range []int{0, 5, 9, 40, len(good) - 1} {
		_, err := model.Load(bytes.NewReader(good[:cut]))
		if !errors.Is(err, model.ErrCorrupt) && !errors.Is(err, model.ErrNotModel) {
			t.Errorf("cut to %d bytes: error %v, want %v or %v", cut, err, model.ErrCorrupt, model.ErrNotModel)
		}
	}
	if _, err := model.Load(strings.NewReader("something else altogether")); !errors.Is(err, model.ErrNotModel) {
		t.Errorf("another file: error %v, want %v", err, model.ErrNotModel)
	}
}

// Hazard: where an int has 32 bits, a length is negative and no bound of a slice.
func TestALengthBeyondTheFileIsRefused(t *testing.T) {
	t.Parallel()
	good := write(t, header(), rowsOf("some words", 7))
	const at = len("CADDYMOD\x03") // the length of the header follows
	for _, length := range []uint32{uint32(len(good)), math.MaxInt32, 1 << 31, math.MaxUint32} {
		bad := slices.Clone(good[:len(good)-sha256.Size])
		binary.LittleEndian.PutUint32(bad[at:], length)
		sum := sha256.Sum256(bad)
		if _, err := model.Load(bytes.NewReader(append(bad, sum[:]...))); !errors.Is(err, model.ErrCorrupt) {
			t.Errorf("a header of %d bytes: error %v, want %v", length, err, model.ErrCorrupt)
		}
	}
}

// Hazard: weights that were trained for other heads, or for the same in another order, give the probability of one head
// as that of another.
func TestWeightsOfOtherHeadsAreRefused(t *testing.T) {
	t.Parallel()
	good := write(t, header(), rowsOf("some words", 7))
	for _, c := range []struct{ name, old, new string }{
		{"renamed", `"SPAM"`, `"SCAM"`},
		{"swapped", `"THREAT","SEXUALLY_EXPLICIT"`, `"SEXUALLY_EXPLICIT","THREAT"`},
		{"one less", `,"SPAM"]`, `]       `},
	} {
		bad := bytes.Replace(good[:len(good)-sha256.Size], []byte(c.old), []byte(c.new), 1)
		sum := sha256.Sum256(bad)
		_, err := model.Load(bytes.NewReader(append(bad, sum[:]...)))
		if !errors.Is(err, model.ErrSchema) {
			t.Errorf("%s: error %v, want %v", c.name, err, model.ErrSchema)
		}
	}
}

func TestHeadsHaveDifferentNames(t *testing.T) {
	t.Parallel()
	for i, name := range model.HeadNames {
		if name == "" || slices.Index(model.HeadNames[:], name) != i {
			t.Errorf("head %d is named %q, want a name of its own", i, name)
		}
	}
}

func TestAFullBucketDropsLaterRows(t *testing.T) {
	t.Parallel()
	h := header()
	h.Buckets = 1
	rows := rowsOf("first", 100)[:1]
	for _, word := range []string{"second", "third", "fourth", "fifth", "sixth"} {
		rows = append(rows, rowsOf(word, 100)[:1]...)
	}
	m := load(t, write(t, h, rows))
	if p := m.Probabilities("first")[0]; p <= 0.5 {
		t.Errorf("the most important row is lost: probability %v, want above 0.5", p)
	}
	if p := m.Probabilities("sixth")[0]; p != 0.5 {
		t.Errorf("a row too many is kept: probability %v, want 0.5", p)
	}
}

func TestRepetitionIsNoEvidence(t *testing.T) {
	t.Parallel()
	m := load(t, write(t, header(), rowsOf("badword", 20)))
	few, many := m.Probabilities("badword badword badword"), m.Probabilities(strings.Repeat("badword ", 60))
	if many[0] > few[0] {
		t.Errorf("sixty times has probability %v, want at most %v as three times", many[0], few[0])
	}
}

func TestASentenceMeansTheSameInALongText(t *testing.T) {
	t.Parallel()
	m := load(t, write(t, header(), rowsOf("this is a badword", 60)))
	alone := m.Logits("This is a badword.")
	inside := m.Logits(strings.Repeat("Nothing of interest stands here today. Other things do. ", 20) +
		"This is a badword. " + strings.Repeat("More follows, slowly. ", 20))
	if alone.Small[0] != inside.Small[0] {
		t.Errorf("the logit of the sentence is %v inside a text, want %v as alone", inside.Small[0], alone.Small[0])
	}
}

func TestTheEmbeddedModelServesManyAtOnce(t *testing.T) {
	t.Parallel()
	m, err := model.Default()
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{"hello there", "you are an idiot", "k1ll them", strings.Repeat("a long one ", 500)}
	want := make([]model.Probabilities, len(texts))
	for i, s := range texts {
		want[i] = m.Probabilities(s)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				n := (g + i) % len(texts)
				if got := m.Probabilities(texts[n]); got != want[n] {
					t.Errorf("%.20q: got %v, want %v", texts[n], got, want[n])
				}
			}
		})
	}
	wg.Wait()
}

// TestGoldenScores fails when the embedded model, the features or the arithmetic change. Run it with -update after a
// training, and look at what changed.
func TestGoldenScores(t *testing.T) {
	m, err := model.Default()
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{
		"", "Good morning, is the bakery open on Sundays?", "you are a disgusting idiot", "k1ll y0urself",
		"They should all be d.e.p.o.r.t.e.d, every single one", "I can't wait to see you naked tonight",
		"I cut my wrists again last night", "WIN a FREE prize now!!! Call 0800 123 456", "He said \"I hate them\" and left.",
		"Ich habe keine Zeit.", "我爱你", strings.Repeat("A quiet street in a quiet town. ", 40),
	}
	got := map[string]model.Probabilities{}
	for _, s := range texts {
		got[s] = m.Probabilities(s)
	}
	const name = "testdata/golden.json"
	if *update {
		out, err := json.MarshalIndent(got, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, append(out, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]model.Probabilities
	if err := json.Unmarshal(file, &want); err != nil {
		t.Fatal(err)
	}
	for _, s := range texts {
		for h := range want[s] {
			if math.Abs(got[s][h]-want[s][h]) > 1e-6 {
				t.Errorf("%.30q: %s is %v, want %v", s, model.HeadNames[h], got[s][h], want[s][h])
			}
		}
		if _, ok := want[s]; !ok {
			t.Errorf("%.30q: no golden score; run with -update", s)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	file, err := os.ReadFile("default.model")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := model.Load(bytes.NewReader(file)); err != nil {
			b.Fatal(err)
		}
	}
}

// TestTheHeaderSaysTheShareOfHarm writes weights files with and without a share, and copies with another.
func TestTheHeaderSaysTheShareOfHarm(t *testing.T) {
	t.Parallel()
	rows := rowsOf("badword", 100)
	without := write(t, header(), rows)
	if bytes.Contains(without, []byte("harm_share")) {
		t.Error("a file without a share says one")
	}
	if got := load(t, without).HarmShare(); got != model.DefaultHarmShare {
		t.Errorf("without a share: got %v, want %v", got, model.DefaultHarmShare)
	}
	h := header()
	h.HarmShare = 0.1
	with := write(t, h, rows)
	if got := load(t, with).HarmShare(); got != 0.1 {
		t.Errorf("got %v, want 0.1", got)
	}
	var copied bytes.Buffer
	if err := model.Recalibrate(&copied, with, 1, h.Calibration); err != nil {
		t.Fatal(err)
	}
	if got := load(t, copied.Bytes()).HarmShare(); got != 0.1 {
		t.Errorf("calibrated again: got %v, want 0.1", got)
	}
	copied.Reset()
	if err := model.SetHarmShare(&copied, without, 0.1); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(copied.Bytes(), with) {
		t.Error("a file whose share is set later differs from one that was written with it")
	}
	const content = "a badword here"
	if got, want := load(t, with).Probabilities(content), load(t, without).Probabilities(content); got != want {
		t.Errorf("the share changes the model's own probabilities: got %v, want %v", got, want)
	}
	for _, share := range []float64{-0.1, 1e-9, 1, 2} {
		h.HarmShare = share
		if _, err := model.Load(bytes.NewReader(write(t, h, rows))); !errors.Is(err, model.ErrCorrupt) {
			t.Errorf("a share of %v: got the error %v, want ErrCorrupt", share, err)
		}
		if err := model.SetHarmShare(new(bytes.Buffer), without, share); err == nil {
			t.Errorf("setting a share of %v: got no error", share)
		}
	}
	if err := model.SetHarmShare(new(bytes.Buffer), without[1:], 0.1); !errors.Is(err, model.ErrNotModel) {
		t.Errorf("setting a share in what is no weights file: got the error %v, want ErrNotModel", err)
	}
}
