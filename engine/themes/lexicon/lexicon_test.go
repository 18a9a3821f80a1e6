// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package lexicon

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// sample is a small lexicon: python is a kind of snake, and snake a kind of animal.
func sample() *Data {
	d := &Data{
		Terms: []string{
			"animal", "glass", "hot", "hot dog", "python", "serpent", "shoot", "shooting", "snake", "stop",
		},
		Kinds:   []uint8{'n', 'n', 'n'},
		Parents: [][]uint32{nil, {0}, {1}},
		Domains: [][]uint32{nil, nil, {0}},
		Dims:    8,
	}
	n := len(d.Terms)
	d.Seen, d.Opaque, d.Senses = make([]uint8, n), make([]uint8, n), make([][]Sense, n)
	d.Derived, d.Explains, d.Vectors = make([][]Link, n), make([][]Link, n), make([][]int8, n)
	d.Seen[0], d.Seen[4] = 80, 255
	d.Opaque[3] = 2
	d.Senses[0] = []Sense{{0, 255}}
	d.Senses[4] = []Sense{{2, 200}}
	d.Senses[5] = []Sense{{1, 255}}
	d.Senses[8] = []Sense{{1, 255}}
	d.Derived[6] = []Link{{7, 250}}
	d.Derived[7] = []Link{{6, 250}}
	d.Explains[0] = []Link{{8, 99}}
	d.Vectors[4] = []int8{127, 0, 0, 0, 0, 0, 0, 0}
	d.Vectors[8] = []int8{90, -90, 0, 0, 0, 0, 0, 0}
	return d
}

func open(tb testing.TB) *Lexicon {
	tb.Helper()
	file, err := sample().Encode()
	if err != nil {
		tb.Fatal(err)
	}
	l, err := Open(file)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	t.Parallel()
	l := open(t)
	find := func(s string) Term {
		term, ok := l.Find([]byte(s))
		if !ok || l.String(term) != s {
			t.Fatalf("%q is not found", s)
		}
		return term
	}
	for _, term := range sample().Terms {
		find(term)
	}
	if _, ok := l.Find([]byte("snak")); ok {
		t.Error("found a word that is not there")
	}
	var kinds []string
	l.Children(l.Sense(find("snake"), 0).Synset, func(s Synset) {
		l.Members(s, func(m Term) { kinds = append(kinds, l.String(m)) })
	})
	if fmt.Sprint(kinds) != "[python]" {
		t.Errorf("hyponyms of snake: got %v, want [python]", kinds)
	}
	l.Field(l.Sense(find("animal"), 0).Synset, func(s Synset) {
		l.Members(s, func(m Term) { kinds = append(kinds, l.String(m)) })
	})
	if fmt.Sprint(kinds) != "[python python]" {
		t.Errorf("with the field of animal: got %v, want [python python]", kinds)
	}
	if got := l.Rarity(find("animal")); got != 10 {
		t.Errorf("rarity of animal: got %v, want 10", got)
	}
	if got := l.Rarity(find("python")); got != NeverSeen {
		t.Errorf("rarity of python: got %v, want %v", got, NeverSeen)
	}
	if got := l.PhraseLength(find("hot")); got != 2 || !l.Opaque(find("hot dog"), 1) || l.Opaque(find("hot dog"), 0) {
		t.Errorf("phrases from hot: got length %d, want 2, with only the second word of \"hot dog\" opaque", got)
	}
	if got := l.Derived(find("shoot"), 0); l.String(got.Term) != "shooting" || got.Weight != 250 {
		t.Errorf("derived from shoot: got %v, want shooting with weight 250", got)
	}
	got := l.Explains(find("animal"), 0)
	if l.String(got.Term) != "snake" || got.Weight != 99 || l.ExplainsCount(find("snake")) != 0 {
		t.Errorf("terms that explain animal: got %v, want snake with weight 99, and none for snake", got)
	}
	if v, _ := l.Vector(find("glass")); v != nil {
		t.Errorf("vector of glass: got %v, want none", v)
	}
	if v, _ := l.Vector(find("snake")); !slices.Equal(v, []int8{90, -90, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("vector of snake: got %v, want [90 -90 0 0 0 0 0 0]", v)
	}
	if _, scale := l.Vector(find("snake")); scale < 0.0078 || scale > 0.0079 {
		t.Errorf("scale of snake: got %v, want 0.00786", scale)
	}
	if signs := l.Signs(find("snake")); signs != 1 {
		t.Errorf("signs of snake: got %b, want 1", signs)
	}
}

func TestTheSameDataGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	a, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	b, err := sample().Encode()
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("two encodings differ, or the second fails: %v", err)
	}
}

func TestUnevenDataIsRefused(t *testing.T) {
	t.Parallel()
	d := sample()
	d.Seen = d.Seen[1:]
	if _, err := d.Encode(); err == nil {
		t.Error("tables of different length: got no error, want one")
	}
	d = sample()
	d.Terms[0] = "zebra"
	if _, err := d.Encode(); err == nil {
		t.Error("terms out of order: got no error, want one")
	}
}

func TestDamagedFilesAreRefused(t *testing.T) {
	t.Parallel()
	whole, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(whole)
	flipped[len(flipped)-3] ^= 1
	other := slices.Clone(whole)
	other[7] = '9'
	for name, file := range map[string][]byte{
		"empty": nil, "cut": whole[:len(whole)-1], "flipped": flipped, "version": other, "header": whole[:20],
	} {
		if _, err := Open(file); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: got error %v, want %v", name, err, ErrDamaged)
		}
	}
}

func TestBases(t *testing.T) {
	t.Parallel()
	l := open(t)
	for word, want := range map[string]string{
		"snake": "[snake]", "snakes": "[snake]", "glasses": "[glass]", "glass": "[glass]", "stopped": "[stop]",
		"stopping": "[stop]", "shooting": "[shooting shoot]", "shot": "[shoot]", "thing": "[]", "s": "[]", "": "[]",
		"hotter": "[hot]", strings.Repeat("s", 100): "[]",
	} {
		var got []string
		for _, term := range l.Bases([]byte(word), nil) {
			got = append(got, l.String(term))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("bases of %.20q: got %v, want %s", word, got, want)
		}
	}
}

func TestUnknownWordsShareAKeyWithTheirInflections(t *testing.T) {
	t.Parallel()
	one := UnknownKey([]byte("deepfake"))
	for _, w := range []string{"deepfakes", "deepfaked", "deepfaking"} {
		if UnknownKey([]byte(w)) != one {
			t.Errorf("%q has another key than \"deepfake\", want the same", w)
		}
	}
	if UnknownKey([]byte("deepfry")) == one {
		t.Error("\"deepfry\" has the key of \"deepfake\", want another")
	}
}

// A file with a correct checksum may still hold anything.
func FuzzOpen(f *testing.F) {
	whole, err := sample().Encode()
	if err != nil {
		f.Fatal(err)
	}
	reader, err := zstd.NewReader(nil)
	if err != nil {
		f.Fatal(err)
	}
	payload, err := reader.DecodeAll(whole[len(magic)+sha256.Size:], nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload)
	f.Add([]byte{1, 1, 8})
	writer, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		frame := writer.EncodeAll(payload, nil)
		sum := sha256.Sum256(frame)
		l, err := Open(slices.Concat([]byte(magic), sum[:], frame))
		if err != nil {
			return
		}
		for i := range l.Size() {
			for _, base := range l.Bases([]byte(l.String(Term(i))), nil) {
				l.Vector(base)
				for s := range l.SenseCount(base) {
					l.Children(l.Sense(base, s).Synset, func(Synset) {})
				}
			}
		}
	})
}

// The file that package themes embeds is intact and knows common words.
func TestShippedFile(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../lexicon.bin")
	if err != nil {
		t.Fatal(err)
	}
	if len(file) > 8<<20 {
		t.Errorf("the file has %d bytes, want at most 8 MiB", len(file))
	}
	l, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	for word, base := range map[string]string{
		"children": "child", "stole": "steal", "bicycles": "bicycle", "phishing": "phishing", "wives": "wife",
		"parties": "party",
	} {
		bases := l.Bases([]byte(word), nil)
		if len(bases) == 0 || !slices.ContainsFunc(bases, func(t Term) bool { return l.String(t) == base }) {
			t.Errorf("bases of %q lack %q", word, base)
		}
	}
	for _, word := range []string{"his", "this", "bus", "always"} {
		for _, base := range l.Bases([]byte(word), nil) {
			if s := l.String(base); s != word {
				t.Errorf("%q has the base %q, want none but itself", word, s)
			}
		}
	}
}
