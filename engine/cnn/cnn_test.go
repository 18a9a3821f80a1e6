// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package cnn_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

var update = flag.Bool("update", false, "rewrite the golden logits")

const width = cnn.Channels

func random(seed uint64, n int, size float64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64() * size)
	}
	return out
}

// whole is a text, and a model with random weights that knows every other word of it. It is made once.
var whole = sync.OnceValue(func() (s struct {
	model  *cnn.Model
	tokens []text.Token
	hashes []uint64
}) {
	var words []cnn.Word
	for i := range 500 {
		t := text.Token{Folded: fmt.Appendf(nil, "wörd%d", i), Flags: text.Flags(i * 137 % 8192)}
		s.tokens, s.hashes = append(s.tokens, t), append(s.hashes, text.Hash(t.Folded))
		if i%2 == 0 {
			w := cnn.Word{Hash: s.hashes[i]}
			copy(w.Vector[:], random(uint64(i), width, 1))
			words = append(words, w)
		}
	}
	s.model = cnn.New(cnn.NewDense(random(1, cnn.DenseSize, 0.1)), words, random(2, cnn.SubwordRows*width, 1), 127)
	return s
})

// sample returns the first n tokens of the text, and the model.
func sample(n int) (*cnn.Model, []text.Token, []uint64) {
	s := whole()
	return s.model, s.tokens[:n:n], s.hashes[:n:n]
}

// through makes dense weights that are zero but for the path from the channels' maxima over the first 32 hidden units
// to logits 0 to 31.
func through() *cnn.Dense {
	d := cnn.NewDense(make([]float32, cnn.DenseSize))
	for c := range width {
		d.HiddenWeights[c*cnn.Hidden+c] = 1
		d.OutputWeights[c*cnn.Outputs+c] = 1
	}
	return d
}

// one is a vector with one value in a channel.
func one(channel int, value float32) (v [width]float32) {
	v[channel] = value
	return v
}

// wordsOf makes tokens without flags.
func wordsOf(words ...string) (tokens []text.Token, hashes []uint64) {
	for _, w := range words {
		tokens = append(tokens, text.Token{Folded: []byte(w)})
		hashes = append(hashes, text.Hash([]byte(w)))
	}
	return tokens, hashes
}

func know(words map[string][width]float32) (out []cnn.Word) {
	for w, v := range words {
		out = append(out, cnn.Word{Hash: text.Hash([]byte(w)), Vector: v})
	}
	return out
}

// near reports whether got is want but for the rounding of vectors to 127 steps.
func near(got, want float32) bool {
	return math.Abs(float64(got-want)) <= 0.006*max(1, math.Abs(float64(want)))
}

// Hazard: a value lands in another channel, another layer or another position in the kernel than it was learned for.
// The expected logits are worked out by hand.
func TestByHand(t *testing.T) {
	t.Parallel()
	// at is the index of the weight from a channel at a position in the kernel to a value; a gate without weights is
	// half open.
	at := func(position, from, to int) int { return (position*width+from)*2*width + to }
	words := map[string][width]float32{"a": one(0, 1), "b": one(1, 2), "c": one(2, 4), "down": one(0, -1)}
	const before, after = 0, 2
	tests := []struct {
		name   string
		set    func(d *cnn.Dense)
		tokens []string
		first  int
		end    int
		flags  text.Flags // of the first token
		want   map[int]float32
	}{
		{"a known word alone", func(*cnn.Dense) {}, []string{"a"}, 0, 1, 0, map[int]float32{0: 1}},
		{"the largest of three", func(*cnn.Dense) {}, []string{"a", "b", "c"}, 0, 3, 0, map[int]float32{0: 1, 1: 2, 2: 4}},
		{"a part of the text", func(*cnn.Dense) {}, []string{"a", "b", "c"}, 1, 2, 0, map[int]float32{1: 2}},
		{"less than nothing", func(*cnn.Dense) {}, []string{"down"}, 0, 1, 0, nil},
		{"a shape feature", func(d *cnn.Dense) { d.Shape[1*width+5] = 3 }, []string{"a"}, 0, 1, text.Caps, map[int]float32{0: 1, 5: 3}},
		{"two shape features", func(d *cnn.Dense) { d.Shape[1*width+5], d.Shape[11*width+5] = 3, 1 }, []string{"a"}, 0, 1, text.Caps | text.Hashtag, map[int]float32{0: 1, 5: 4}},
		{"a flag that is no shape feature", func(d *cnn.Dense) { d.Shape[1*width+5] = 3 }, []string{"a"}, 0, 1, text.Recovered, map[int]float32{0: 1}},
		{"the word before, in the first layer", func(d *cnn.Dense) { d.Kernel[0][at(before, 0, 7)] = 6 }, []string{"a", "b"}, 1, 2, 0, map[int]float32{1: 2, 7: 3}},
		{"no word before", func(d *cnn.Dense) { d.Kernel[0][at(before, 0, 7)] = 6 }, []string{"a", "b"}, 0, 1, 0, map[int]float32{0: 1}},
		{"the word after", func(d *cnn.Dense) { d.Kernel[0][at(after, 1, 7)] = 5 }, []string{"a", "b"}, 0, 1, 0, map[int]float32{0: 1, 7: 5}},
		{"no word after", func(d *cnn.Dense) { d.Kernel[0][at(after, 1, 7)] = 5 }, []string{"a", "b"}, 1, 2, 0, map[int]float32{1: 2}},
		{"two words before, in the second layer", func(d *cnn.Dense) { d.Kernel[1][at(before, 0, 7)] = 6 }, []string{"a", "b", "c"}, 2, 3, 0, map[int]float32{2: 4, 7: 3}},
		{"four words after, in the third layer", func(d *cnn.Dense) { d.Kernel[2][at(after, 2, 7)] = 1 }, []string{"a", "b", "b", "b", "c"}, 0, 1, 0, map[int]float32{0: 1, 7: 2}},
		{"a gate of 1 is three quarters open", func(d *cnn.Dense) {
			d.Kernel[0][at(1, 0, 7)] = 8
			d.Kernel[0][at(1, 0, width+7)] = 1
		}, []string{"a"}, 0, 1, 0, map[int]float32{0: 1, 7: 6}},
		{"a gate of -3 is an eighth open", func(d *cnn.Dense) {
			d.Kernel[0][at(1, 0, 7)] = 8
			d.Bias[0][width+7] = -3
		}, []string{"a"}, 0, 1, 0, map[int]float32{0: 1, 7: 1}},
		{"a bias", func(d *cnn.Dense) { d.Bias[2][9] = 1 }, []string{"a"}, 0, 1, 0, map[int]float32{0: 1, 9: 0.5}},
		// The second query looks at channels 0 and 1: it sees ln 3 in a and 0 in c, so a weighs 3/4 in its mean.
		{"a weighted mean", func(d *cnn.Dense) {
			d.Attention[1*width+0] = float32(math.Log(3))
			d.HiddenWeights[(2*width+2)*cnn.Hidden+40], d.OutputWeights[40*cnn.Outputs+11] = 1, 1 // of its mean
			d.HiddenWeights[(2*width+0)*cnn.Hidden+41], d.OutputWeights[41*cnn.Outputs+12] = 1, 1 // channel 0
		}, []string{"a", "c"}, 0, 2, 0, map[int]float32{0: 1, 2: 4, 11: 1, 12: 0.75}},
		{"a plain mean", func(d *cnn.Dense) {
			d.HiddenWeights[(width+2)*cnn.Hidden+40], d.OutputWeights[40*cnn.Outputs+11] = 1, 1
		},
			[]string{"a", "a", "c", "a"}, 0, 4, 0, map[int]float32{0: 1, 2: 4, 11: 1}},
		{"biases of the head", func(d *cnn.Dense) { d.HiddenBias[60], d.OutputWeights[60*cnn.Outputs+3], d.OutputBias[4] = 2, -3, -1 }, []string{"a"}, 0, 1, 0, map[int]float32{0: 1, 3: -6, 4: -1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := through()
			test.set(d)
			tokens, hashes := wordsOf(test.tokens...)
			tokens[0].Flags = test.flags
			var s cnn.Scratch
			m := cnn.New(d, know(words), make([]float32, cnn.SubwordRows*width), 127)
			got := m.Logits(&s, tokens, hashes, test.first, test.end)
			for i, v := range got {
				if !near(v, test.want[i]) {
					t.Errorf("logit %d is %v, want %v", i, v, test.want[i])
				}
			}
		})
	}
}

// Hazard: an unknown word has no embedding, or one that grows with its length.
func TestAnUnknownWordIsTheMeanOfItsSubwords(t *testing.T) {
	t.Parallel()
	rows := cnn.AppendSubwords(nil, []byte("abc")) // <ab <abc <abc> abc abc> bc>
	if len(rows) != 6 || len(slices.Compact(slices.Sorted(slices.Values(rows)))) != 6 {
		t.Fatalf("abc has the sub-words %d, want 6 different ones", rows)
	}
	subwords := make([]float32, cnn.SubwordRows*width)
	for i, row := range rows {
		subwords[int(row)*width+3] = float32(i) // 0 to 5
	}
	others := slices.Concat(rows, cnn.AppendSubwords(nil, []byte("zzz")), cnn.AppendSubwords(nil, []byte("a")))
	for row := range uint16(1000) { // the very largest values of a channel are clipped: these keep the scale
		if !slices.Contains(others, row) {
			subwords[int(row)*width+3] = 5
		}
	}
	m := cnn.New(through(), nil, subwords, 127)
	var s cnn.Scratch
	for word, want := range map[string]float32{"abc": 2.5, "zzz": 0, "": 0, "a": 0} {
		tokens, hashes := wordsOf(word)
		if got := m.Logits(&s, tokens, hashes, 0, 1)[3]; !near(got, want) {
			t.Errorf("logit 3 of %q is %v, want %v", word, got, want)
		}
	}
}

// Hazard: letters of several bytes, broken ones or too long a word make wrong sub-words.
func TestSubwords(t *testing.T) {
	t.Parallel()
	count := func(letters int) int { // runs of three to five of the letters and the two ends
		n := letters + 2
		return max(n-2, 0) + max(n-3, 0) + max(n-4, 0)
	}
	for _, test := range []struct {
		word    string
		letters int
	}{
		{"", 0}, {"a", 1}, {"été", 3}, {"我爱你", 3}, {"\xff\xfe", 2},
		{strings.Repeat("x", 32), 32}, {strings.Repeat("x", 33), 32}, {strings.Repeat("é", 5000), 32},
	} {
		got := cnn.AppendSubwords([]uint16{1}, []byte(test.word))
		if len(got)-1 != count(test.letters) || got[0] != 1 {
			t.Errorf("%.20q has %d sub-words, want %d", test.word, len(got)-1, count(test.letters))
		}
		for _, row := range got {
			if int(row) >= cnn.SubwordRows {
				t.Errorf("%.20q: sub-word in row %d, want below %d", test.word, row, cnn.SubwordRows)
			}
		}
	}
	if slices.Equal(cnn.AppendSubwords(nil, []byte("dog")), cnn.AppendSubwords(nil, []byte("god"))) {
		t.Error("dog and god have the same sub-words")
	}
}

// Hazard: a change of the dilations leaves the receptive field as it was.
func TestTheReceptiveRadiusIsTheSumOfTheDilations(t *testing.T) {
	t.Parallel()
	sum := 0
	for _, dilation := range cnn.Dilations {
		sum += dilation * (cnn.KernelSize / 2)
	}
	if sum != cnn.ReceptiveRadius {
		t.Errorf("ReceptiveRadius is %d, want %d", cnn.ReceptiveRadius, sum)
	}
}

// Hazard: the logits of a window depend on tokens far from it, or on the window before it.
func TestOnlyTheReceptiveFieldMatters(t *testing.T) {
	t.Parallel()
	m, tokens, hashes := sample(150)
	var shared cnn.Scratch
	for _, w := range [][2]int{
		{0, 1}, {0, 40}, {3, 20}, {7, 8}, {60, 124}, {100, 150}, {149, 150}, {140, 149}, {0, 64},
	} {
		var s cnn.Scratch
		first, end := w[0], w[1]
		from, to := max(first-cnn.ReceptiveRadius, 0), min(end+cnn.ReceptiveRadius, len(tokens))
		alone := *m.Logits(&s, tokens[from:to], hashes[from:to], first-from, end-from)
		if inside := *m.Logits(&shared, tokens, hashes, first, end); inside != alone {
			t.Errorf("tokens %d to %d: inside the text %v, want as with the receptive field alone %v",
				first, end, inside, alone)
		}
		if first == 0 || end == len(tokens) {
			continue
		}
		less := *m.Logits(&s, tokens[from+1:to-1], hashes[from+1:to-1], first-from-1, end-from-1)
		if less == alone {
			t.Errorf("tokens %d to %d: the outermost tokens of the receptive field change nothing", first, end)
		}
	}
}

// Hazard: what one window or text leaves in the scratch changes the logits of the next.
func TestWindowsDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	var s, alone cnn.Scratch
	for _, n := range []int{150, 90, 150} {
		m, tokens, hashes := sample(n)
		s.Begin(tokens, hashes)
		r := rand.New(rand.NewPCG(5, uint64(n)))
		for range 60 {
			first := r.IntN(n)
			end := first + r.IntN(min(n-first, cnn.MaxTokens)+1)
			got := *m.WindowLogits(&s, first, end)
			if want := *m.Logits(&alone, tokens, hashes, first, end); got != want {
				t.Fatalf("tokens %d to %d of %d: %v after other windows, %v alone", first, end, n, got[:2], want[:2])
			}
		}
	}
}

// Hazard: windows that are computed in one go have other logits than each by itself.
func TestWantedWindowsAreAsEachByItself(t *testing.T) {
	t.Parallel()
	m, tokens, hashes := sample(300)
	var s, alone cnn.Scratch
	s.Begin(tokens, hashes)
	// Side by side, overlapping, with gaps of 1 to 30 tokens, at both ends, and longer than a window may be.
	windows := [][2]int{
		{0, 5}, {5, 9}, {7, 40}, {41, 44}, {51, 60}, {90, 91}, {120, 250}, {230, 240}, {299, 300}, {4, 4},
	}
	for _, w := range windows {
		s.Want(w[0], w[1])
	}
	for _, w := range windows {
		got := *m.WindowLogits(&s, w[0], w[1])
		if want := *m.Logits(&alone, tokens, hashes, w[0], w[1]); got != want {
			t.Errorf("tokens %d to %d: %v with other windows, %v alone", w[0], w[1], got[:2], want[:2])
		}
	}
}

// Hazard: a window is longer than the memory for it.
func TestAWindowIsCut(t *testing.T) {
	t.Parallel()
	m, tokens, hashes := sample(500)
	var s cnn.Scratch
	want := *m.Logits(&s, tokens, hashes, 10, 10+cnn.MaxTokens)
	if got := *m.Logits(&s, tokens, hashes, 10, 500); got != want {
		t.Errorf("a long window has the logits %v, want those of its first %d tokens, %v", got, cnn.MaxTokens, want)
	}
}

// Hazard: an empty window has the logits of the one before it.
func TestAnEmptyWindow(t *testing.T) {
	t.Parallel()
	m, tokens, hashes := sample(20)
	var s cnn.Scratch
	for _, w := range [][2]int{{0, 0}, {5, 5}, {20, 20}, {9, 3}} {
		m.Logits(&s, tokens, hashes, 0, 20)
		if got := *m.Logits(&s, tokens, hashes, w[0], w[1]); got != [cnn.Outputs]float32{} {
			t.Errorf("tokens %d to %d: got %v, want zeros", w[0], w[1], got)
		}
	}
	if got := *m.Logits(&s, nil, nil, 0, 0); got != [cnn.Outputs]float32{} {
		t.Errorf("no tokens: got %v, want zeros", got)
	}
}

// Hazard: concurrent calls write into each other's memory. Run with -race.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	m, tokens, hashes := sample(100)
	var s cnn.Scratch
	var want [60][cnn.Outputs]float32
	for i := range want {
		want[i] = *m.Logits(&s, tokens, hashes, i, i+40)
	}
	var wait sync.WaitGroup
	for g := range 4 {
		wait.Go(func() {
			var s cnn.Scratch
			for i := range want {
				n := (i*7 + g*15) % len(want)
				if got := *m.Logits(&s, tokens, hashes, n, n+40); got != want[n] {
					t.Errorf("window %d: got %v, want %v", n, got, want[n])
				}
			}
		})
	}
	wait.Wait()
}

// Hazard: garbage for every window of every text.
func TestASecondTextAllocatesNothing(t *testing.T) {
	m, tokens, hashes := sample(100)
	var s cnn.Scratch
	m.Logits(&s, tokens, hashes, 7, 7+cnn.MaxTokens)
	if n := testing.AllocsPerRun(20, func() {
		m.Logits(&s, tokens, hashes, 7, 7+cnn.MaxTokens)
		m.Logits(&s, tokens, hashes, 90, 100)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestShapeFeatures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		flags text.Flags
		want  []uint8
	}{
		{0, nil}, {text.Obfuscated, []uint8{0}},
		{text.Hashtag | text.Caps | text.Recovered, []uint8{1, 11}}, {text.Recovered, nil},
	} {
		if got := cnn.AppendShapeFeatures(nil, test.flags); !slices.Equal(got, test.want) {
			t.Errorf("flags %b have the shape features %d, want %d", test.flags, got, test.want)
		}
	}
	if got := cnn.AppendShapeFeatures(nil, math.MaxUint16); len(got) != cnn.ShapeFeatures {
		t.Errorf("all flags have %d shape features, want %d", len(got), cnn.ShapeFeatures)
	}
}

// Hazard: of words that the table cannot tell apart, another is kept each time, and the weights file changes.
func TestTheFirstOfWordsWithTheSameHashIsKept(t *testing.T) {
	t.Parallel()
	words := []cnn.Word{
		{Hash: 7<<32 | 1, Vector: one(0, 1)}, {Hash: 9 << 32, Vector: one(1, 1)}, {Hash: 7<<32 | 2, Vector: one(2, 1)},
	}
	m := cnn.New(through(), words, make([]float32, cnn.SubwordRows*width), 127)
	var s cnn.Scratch
	got := m.Logits(&s, make([]text.Token, 1), []uint64{7<<32 | 2}, 0, 1)
	if !near(got[0], 1) || got[2] != 0 {
		t.Errorf("channels 0 and 2 are %v and %v, want 1 and 0", got[0], got[2])
	}
}

// Hazard: the file gives other logits than the model that was trained, or other bytes each time.
func TestAModelSurvivesItsBytes(t *testing.T) {
	t.Parallel()
	m, tokens, hashes := sample(80)
	file := m.Marshal()
	again, err := cnn.Unmarshal(file)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(again.Marshal(), file) {
		t.Error("the bytes change on the way")
	}
	var s, other cnn.Scratch
	for _, w := range [][2]int{{0, 1}, {10, 50}, {79, 80}} {
		got, want := *again.Logits(&s, tokens, hashes, w[0], w[1]), *m.Logits(&other, tokens, hashes, w[0], w[1])
		if got != want {
			t.Errorf("tokens %d to %d: %v, before %v", w[0], w[1], got, want)
		}
	}
	none, err := cnn.Unmarshal(cnn.New(through(), nil, make([]float32, cnn.SubwordRows*width), 127).Marshal())
	if err != nil {
		t.Fatal(err)
	}
	none.Logits(&s, tokens, hashes, 0, 10)
}

// marshalled returns the bytes of a model that knows two words.
func marshalled() []byte {
	words := know(map[string][width]float32{"a": one(0, 1), "b": one(1, 1)})
	return cnn.New(through(), words, make([]float32, cnn.SubwordRows*width), 127).Marshal()
}

// Hazard: bytes that are no network crash the process or give probabilities that are not numbers.
func TestCorruptBytesAreRefused(t *testing.T) {
	t.Parallel()
	good := marshalled()
	put := func(at int, v uint32) []byte {
		bad := slices.Clone(good)
		binary.LittleEndian.PutUint32(bad[at:], v)
		return bad
	}
	const scales = 4 + 2*4
	dense := scales + 2*width*4
	for name, bad := range map[string][]byte{
		"empty":                   nil,
		"three bytes":             good[:3],
		"the number alone":        good[:4],
		"cut by a byte":           good[:len(good)-1],
		"cut in half":             good[:len(good)/2],
		"grown by a byte":         append(slices.Clone(good), 0),
		"one word too many":       put(0, 3),
		"one word too few":        put(0, 1),
		"four thousand million":   put(0, math.MaxUint32),
		"words that overflow":     put(0, 1<<30),
		"a scale is not a number": put(scales, math.Float32bits(float32(math.NaN()))),
		"a weight is not":         put(dense+4*(cnn.DenseSize-1), math.Float32bits(float32(math.NaN()))),
		"an infinite weight":      put(dense, math.Float32bits(float32(math.Inf(-1)))),
	} {
		if m, err := cnn.Unmarshal(bad); !errors.Is(err, cnn.ErrCorrupt) || m != nil {
			t.Errorf("%s: got a model %t and error %v, want no model and %v", name, m != nil, err, cnn.ErrCorrupt)
		}
	}
}

// FuzzUnmarshal alters the beginning of a good file, where everything but the embeddings is, and its length.
func FuzzUnmarshal(f *testing.F) {
	good := marshalled()
	f.Add([]byte{}, 0, 0)
	f.Add([]byte{3}, 0, 0)
	f.Add([]byte{0, 0, 0xc0, 0x7f}, 12, 0)
	f.Add([]byte{0xff, 0xff, 0x7f, 0x7f}, 12+8*width, 0)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, 4, -36)
	f.Add([]byte{}, 0, 36)
	f.Fuzz(func(t *testing.T, change []byte, at, more int) {
		file := slices.Clone(good)
		if at >= 0 && at < len(file) {
			copy(file[at:], change)
		}
		if more < 0 && more >= -len(file) {
			file = file[:len(file)+more]
		}
		if more > 0 {
			file = append(file, make([]byte, min(more, 1<<12))...)
		}
		m, err := cnn.Unmarshal(file)
		if err != nil {
			if !errors.Is(err, cnn.ErrCorrupt) {
				t.Errorf("error %v, want %v", err, cnn.ErrCorrupt)
			}
			return
		}
		if len(m.Marshal()) != len(file) {
			t.Error("a file of another length was taken")
		}
		var s cnn.Scratch
		tokens, hashes := wordsOf("a", "b", "unknown")
		m.Logits(&s, tokens, hashes, 0, 3)
	})
}

// TestGolden fails when a processor, a build tag or a change of the code gives other bits. Run it with -update when the
// arithmetic is meant to change; all weights must then be trained again.
func TestGolden(t *testing.T) {
	t.Parallel()
	m, tokens, hashes := sample(120)
	var s cnn.Scratch
	got := map[string][]uint32{}
	for _, w := range [][2]int{{0, 1}, {0, 40}, {33, 41}, {50, 114}, {119, 120}} {
		var bits []uint32
		for _, v := range m.Logits(&s, tokens, hashes, w[0], w[1]) {
			bits = append(bits, math.Float32bits(v))
		}
		got[fmt.Sprintf("%d to %d", w[0], w[1])] = bits
	}
	const name = "testdata/golden.json"
	if *update {
		out, err := json.Marshal(got)
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
	var want map[string][]uint32
	if err := json.Unmarshal(file, &want); err != nil {
		t.Fatal(err)
	}
	for window, bits := range want {
		if !slices.Equal(got[window], bits) {
			t.Errorf("tokens %s: the bits of the logits are %d, want %d", window, got[window], bits)
		}
	}
}
