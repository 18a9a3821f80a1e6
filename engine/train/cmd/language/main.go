// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command language trains the detector of languages and reports on held-back sentences.
//
//	go run ./engine/train/cmd/language --data DIR --out engine/language/languages.weights
//
// DIR holds the folders languages and plain. With --model nothing is trained: the report is on that weights file.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"

	"github.com/caddy-moderation/caddy-moderation/engine/language"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "language:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("language", flag.ContinueOnError)
	data := flags.String("data", "", "folder with the folders languages and plain")
	to := flags.String("out", "", "weights file to write")
	weights := flags.String("model", "", "weights file to report on, instead of training one")
	errs := flags.Int("errors", 0, "how many wrong answers to list")
	epochs := flags.Int("epochs", 6, "passes over the sentences")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *data == "" {
		return errors.New("--data is needed")
	}
	all, err := read(os.DirFS(*data))
	if err != nil {
		return err
	}
	var training, test []sentence
	for _, s := range all {
		if s.held {
			test = append(test, s)
		} else {
			training = append(training, s)
		}
	}
	var file []byte
	if *weights != "" {
		if file, err = os.ReadFile(*weights); err != nil {
			return err
		}
	} else {
		file = fit(training, *epochs)
		if *to != "" {
			if err := os.WriteFile(*to, file, 0o644); err != nil {
				return err
			}
		}
	}
	d, err := language.Load(file)
	if err != nil {
		return err
	}
	report(out, d, test, *errs)
	return nil
}

// sentence is a text in a known language.
type sentence struct {
	tag, text, source string
	held              bool // whether it is only measured
	weight            float32
}

// renamed are the names of the data for languages that have another tag here, "" for those that are left out because
// they are too close to another one.
var renamed = map[string]string{
	"bs": "hr", "nn": "no", "nb": "no", "arz": "ar", "arq": "ar", "wuu": "zh", "awa": "hi", "iw": "he",
}

// sources are the files that train the detector, and how many rows of a language each may give.
var sources = []struct {
	name   string
	limit  int
	weight float32
	// held says that some rows are held back for the report.
	held bool
}{
	{"languages/langid_tatoeba_laser", 1000, 1, true},
	{"languages/benign_tatoeba", 8000, 1, true},
	{"languages/benign_ud_treebanks", 4000, 1, true},
	{"languages/subtitles_xed", 5000, 0.6, false},
	{"languages/benign_tweets_xlmt_train", 2500, 0.6, false},
	{"languages/benign_xquad", 1500, 1, false},
	{"languages/benign_indonlu_id", 4000, 0.6, false},
	{"languages/benign_codemixed_hinglish", 9000, 1, false},
	{"languages/bohra_hinglish", 4000, 1, false},
	{"languages/trac1_hi_train", 6000, 1, false},
	{"languages/hasoc_hi_train", 4000, 1, false},
	{"languages/offenseval2020_tr_train", 5000, 0.6, false},
	{"languages/offenseval2020_el_train", 1000, 0.6, false},
	{"languages/poleval2019_pl_train", 4000, 0.6, false},
	{"languages/russe_detox_train", 6000, 0.6, false},
	{"languages/told_br", 4000, 0.6, false},
	{"languages/tupy", 4000, 0.6, false},
	{"languages/germeval2018_train", 4000, 0.6, false},
	{"languages/offendes_train_dev", 4000, 0.6, false},
	{"languages/dkhate_da_train", 3000, 0.6, false},
	{"languages/victsd_train_dev", 4000, 0.6, false},
	{"languages/wordlist_frequency", 6000, 0.15, false},
	{"plain/everyday", 0, 1, false},
}

// read reads all sentences.
func read(data fs.FS) ([]sentence, error) {
	known := language.Tags()
	var all []sentence
	for _, src := range sources {
		counts := map[string]int{}
		err := lines(data, src.name+".jsonl.gz", func(text, tag string) {
			if to, ok := renamed[tag]; ok {
				tag = to
			}
			if tag == "sr" && share(text, unicode.Latin) > 0.5 {
				tag = "hr"
			}
			if !slices.Contains(known, tag) || counts[tag] >= src.limit || wrongScript(tag, text) {
				return
			}
			counts[tag]++
			held := src.held && hashOf(text)%12 == 0
			all = append(all, sentence{tag, text, src.name, held, src.weight})
			if latinised := latinise(tag, text); latinised != "" && src.held && counts[tag]%2 == 0 {
				all = append(all, sentence{tag + "-Latn", latinised, src.name, held, src.weight})
			}
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	english, err := fs.Glob(data, "plain/*.jsonl.gz")
	if err != nil {
		return nil, err
	}
	for _, name := range english {
		count := 0
		err := lines(data, name, func(text, _ string) {
			if count++; count > 2500 || strings.HasPrefix(filepath.Base(name), "long_") {
				return
			}
			held := hashOf(text)%12 == 0
			all = append(all, sentence{"en", firstSentences(text, 160), name, held, 1})
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// firstSentences cuts a text to about n bytes, at a space.
func firstSentences(text string, n int) string {
	if len(text) <= n {
		return text
	}
	if at := strings.LastIndexByte(text[:n], ' '); at > 0 {
		return text[:at]
	}
	return text
}

// wrongScript reports whether a text is not in the script of its language: mixed rows teach nothing.
func wrongScript(tag, text string) bool {
	switch tag {
	case "zh", "yue":
		return share(text, unicode.Han) < 0.5
	case "ja":
		return share(text, unicode.Hiragana, unicode.Katakana, unicode.Han) < 0.5
	case "hi", "mr":
		return share(text, unicode.Devanagari) < 0.5
	case "ru", "uk", "be", "bg", "sr", "mk", "kk", "mn", "tt":
		return share(text, unicode.Cyrillic) < 0.5
	case "ar", "fa", "ur", "ug":
		return share(text, unicode.Arabic) < 0.5
	}
	return false
}

// share returns the share of the letters of a text that are of the scripts.
func share(text string, tables ...*unicode.RangeTable) float64 {
	in, all := 0, 0
	for _, r := range text {
		if unicode.IsLetter(r) {
			all++
			if unicode.In(r, tables...) {
				in++
			}
		}
	}
	return float64(in) / math.Max(1, float64(all))
}

// latinise writes Russian and Arabic as people do who have only Latin letters, or returns "".
func latinise(tag, text string) string {
	var table map[rune]string
	switch tag {
	case "ru":
		table = russian
	case "ar":
		table = arabizi
	default:
		return ""
	}
	var b strings.Builder
	vowel := 0
	for _, r := range strings.ToLower(text) {
		to, ok := table[r]
		if !ok {
			if r < utf8.RuneSelf {
				b.WriteRune(r)
			}
			vowel = 0
			continue
		}
		// Arabic does not write short vowels; those who write it in Latin letters do.
		if tag == "ar" && vowel == 1 && !strings.ContainsAny(to, "aeiou") {
			b.WriteString([]string{"a", "e", "i", ""}[hashOf(text+to)%4])
			vowel = 0
		}
		b.WriteString(to)
		vowel++
		if strings.ContainsAny(to, "aeiou") {
			vowel = 0
		}
	}
	return b.String()
}

var russian = tableOf("а a б b в v г g д d е e ё yo ж zh з z и i й y к k л l м m н n о o п p р r с s т t у u ф f х h ц ts ч ch ш sh щ sch ъ  ы y ь  э e ю yu я ya")

var arabizi = tableOf("ا a أ a إ i آ a ب b ت t ث th ج j ح 7 خ 5 د d ذ z ر r ز z س s ش sh ص s ض d ط t ظ z ع 3 غ gh ف f ق 2 ك k ل l م m ن n ه h و o ي i ى a ة a ء 2 ئ 2 ؤ o")

func tableOf(pairs string) map[rune]string {
	table := map[rune]string{}
	fields := strings.Split(pairs, " ")
	for i := 0; i+1 < len(fields); i += 2 {
		r, _ := utf8.DecodeRuneInString(fields[i])
		table[r] = fields[i+1]
	}
	return table
}

func hashOf(text string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(text))
	return h.Sum32() * 2654435761 >> 8
}

// lines calls use for each row of a compressed file.
func lines(data fs.FS, name string, use func(text, tag string)) error {
	f, err := data.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	scan := bufio.NewScanner(zr)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var r struct {
			Text string `json:"text"`
			Lang string `json:"lang"`
		}
		if err := json.Unmarshal(scan.Bytes(), &r); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		use(r.Text, r.Lang)
	}
	return scan.Err()
}

// rowBits are the binary logarithms of the numbers of rows of the groups.
var rowBits = []uint{14, 13, 12, 11, 13}

// fit trains the groups, each on a goroutine of its own.
func fit(all []sentence, epochs int) []byte {
	sizes := language.GroupSizes()
	weights, biases := make([][]float32, len(sizes)), make([][]float32, len(sizes))
	var wait sync.WaitGroup
	for g, n := range sizes {
		wait.Go(func() { weights[g], biases[g] = fitGroup(all, g, n, epochs) })
	}
	wait.Wait()
	return language.Encode(rowBits, weights, biases)
}

// fitGroup fits a softmax over the languages of a group by AdaGrad. Each pass sees another part of each sentence, most
// of them short, because what is to be told apart is short.
func fitGroup(all []sentence, g, n, epochs int) (weights, biases []float32) {
	var sampler language.Sampler
	var mine []sentence
	counts := make([]float64, n)
	for _, s := range all {
		if x := sampler.Sample(s.tag, s.text); x.Group == g && len(x.Features) > 0 {
			mine = append(mine, s)
			counts[x.Lane] += float64(s.weight)
		}
	}
	rows := 1 << rowBits[g]
	weights, biases = make([]float32, rows*n), make([]float32, n)
	squares := make([]float32, rows)
	r := rand.New(rand.NewPCG(1, uint64(g)))
	shift := 64 - rowBits[g]
	z, grad := make([]float64, n), make([]float32, n)
	const rate = 0.6
	for epoch := range epochs {
		r.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
		step := rate * (1 - 0.9*float64(epoch)/float64(epochs))
		for _, s := range mine {
			x := sampler.Sample(s.tag, crop(s.text, r))
			if len(x.Features) == 0 {
				continue
			}
			norm := 1 / math.Sqrt(float64(len(x.Features)))
			for i := range z {
				z[i] = 0
			}
			for _, h := range x.Features {
				row := weights[int(h>>shift)*n:][:n]
				for i, w := range row {
					z[i] += float64(w)
				}
			}
			largest := math.Inf(-1)
			for i := range z {
				z[i] = z[i]*norm + float64(biases[i])
				largest = max(largest, z[i])
			}
			var sum float64
			for i := range z {
				z[i] = math.Exp(z[i] - largest)
				sum += z[i]
			}
			// Rare languages weigh more, but not as much more as they are rarer.
			weight := float64(s.weight) * math.Min(6, math.Pow(8000/counts[x.Lane], 0.5))
			var square float64
			for i := range z {
				p := z[i] / sum
				if i == x.Lane {
					p--
				}
				biases[i] -= float32(step * 0.002 * weight * p)
				g := weight * p * norm
				grad[i] = float32(g)
				square += g * g
			}
			if square < 1e-7 {
				continue
			}
			for _, h := range x.Features {
				at := int(h >> shift)
				squares[at] += float32(square)
				k := float32(step / math.Sqrt(float64(squares[at])+0.05))
				row := weights[at*n:][:n]
				for i, g := range grad {
					row[i] -= k * g
				}
			}
		}
	}
	return weights, biases
}

// crop returns the whole text, or some words in a row of it.
func crop(text string, r *rand.Rand) string {
	if r.IntN(3) == 0 {
		return text
	}
	want := 6 + r.IntN(40)
	if len(text) <= want {
		return text
	}
	from := r.IntN(len(text) - want)
	to := from + want
	for from > 0 && text[from-1] != ' ' && from > to-want-12 || from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && text[to] != ' ' && to < from+want+14 || to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	return text[from:to]
}

// report prints the share of right answers by language and length.
func report(out io.Writer, d *language.Detector, test []sentence, errs int) {
	type cell struct{ right, und, all int }
	lengths := []string{"20-39", "40-"}
	byTag := map[string]*[2]cell{}
	var total [2]cell
	for _, s := range test {
		n := utf8.RuneCountInString(s.text)
		if s.tag == "zh" || s.tag == "ja" || s.tag == "ko" || s.tag == "yue" {
			n *= 3
		}
		if n < 20 {
			continue
		}
		k := 0
		if n >= 40 {
			k = 1
		}
		c := byTag[s.tag]
		if c == nil {
			c = new([2]cell)
			byTag[s.tag] = c
		}
		g := d.Detect(s.text)
		c[k].all++
		total[k].all++
		switch {
		case g.Tag == language.Undetermined:
			c[k].und++
			total[k].und++
		case language.Related(g.Tag, s.tag):
			c[k].right++
			total[k].right++
		}
		if !language.Related(g.Tag, s.tag) && errs > 0 && k == 1 {
			errs--
			fmt.Fprintf(out, "%s taken for %s (%.2f, %s): %s\n", s.tag, g.Tag, g.Probability, g.Likeliest, s.text)
		}
	}
	percent := func(n, of int) float64 { return 100 * float64(n) / math.Max(1, float64(of)) }
	fmt.Fprintf(out, "| language | %s characters | right | undetermined | %s characters | right | undetermined |\n", lengths[0], lengths[1])
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|")
	tags := slices.Sorted(keys(byTag))
	line := func(name string, c *[2]cell) {
		fmt.Fprintf(out, "| %s | %d | %.1f %% | %.1f %% | %d | %.1f %% | %.1f %% |\n", name, c[0].all, percent(c[0].right, c[0].all),
			percent(c[0].und, c[0].all), c[1].all, percent(c[1].right, c[1].all), percent(c[1].und, c[1].all))
	}
	for _, tag := range tags {
		line(tag, byTag[tag])
	}
	line("all", &total)
	var mean [2]float64
	for _, c := range byTag {
		for k := range mean {
			mean[k] += percent(c[k].right, c[k].all) / float64(len(byTag))
		}
	}
	fmt.Fprintf(out, "mean of the languages: %.2f %%, %.2f %%\n", mean[0], mean[1])
}

func keys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
