// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// Priors returns the shares of traffic, from 0 to 1, to which calibration assumes that each category applies.
func Priors() (out [model.NumCategories]float64) {
	for h := range out {
		out[h] = priors[h] * usualHarmShare
	}
	return out
}

// AttributePrior returns the share of traffic, from 0 to 1, to which calibration assumes that an attribute applies.
func AttributePrior() float64 { return priors[categories] * usualHarmShare }

// OrdinaryShare is the share of the harmless traffic, from 0 to 1, that calibration assumes to be ordinary text. The
// rest looks like harm.
const OrdinaryShare = ordinary

// Copies holds the shares of the corpus, from 0 to 1, that a training adds copies of.
type Copies struct {
	// Disguise, Surround and Swap are the shares that [Augment], [Surround] and [Swap] take.
	Disguise, Surround, Swap float64
}

// Sheet is a data sheet: it counts what a training for shipping learns from.
type Sheet struct {
	// Files counts the files of the corpus, by name.
	Files []CorpusFile
	// Themes is the number of their rows that pair a text with a theme. The classifier does not learn from them.
	Themes int
	// Families and Bands count the texts of the corpus by who speaks and by length.
	Families, Bands []Coverage
	// Sources counts the texts of the public sources, in the order of the table of sources. The last entry is that of
	// the lexicons.
	Sources []SourceRows
	// Plain counts the files of ordinary text, by name.
	Plain []PlainFile
	// Annotations counts the annotated texts of the sources and of ordinary text by family, and Annotated all lines of
	// the file of annotations.
	Annotations []AnnotatedFamily
	Annotated   int
	// Readings compares two readers.
	Readings *Readings
	// Training, Calibration and Test are the numbers of texts in the splits, without duplicates and copies.
	Training, Calibration, Test int
	// Base is the number of texts and pieces of documents of the training split that are trained on as they are, and
	// Mineable that of the ordinary ones that only hard negatives are taken from.
	Base, Mineable int
	// Disguised, Surrounded and Swapped are the numbers of copies that are added to them.
	Disguised, Surrounded, Swapped int
	// Patterns is the number of texts that [Patterns] makes.
	Patterns int
	// Digest is that of the [Dataset].
	Digest string
}

// CorpusFile counts the rows of a file of the corpus.
type CorpusFile struct {
	// Name is the name of the file, without folder and extension.
	Name string
	// Rows is the number of rows with labels. Of these, no category applies to Harmless, Grouped are in a group of
	// contrasts, and Patterned differ from another row only in words for groups of people.
	Rows, Harmless, Grouped, Patterned int
	// Kinds and Voices are the numbers of distinct kinds of text and of voices in the file.
	Kinds, Voices int
	// Positives is the number of rows to which each category applies.
	Positives [model.NumCategories]int
}

// Coverage counts the texts of the corpus of one family of voices or one band of lengths.
type Coverage struct {
	// Name is the name of the family, or the range of lengths in characters.
	Name string
	// Rows is the number of texts.
	Rows int
	// Positives is the number of texts to which each category applies. Hard is the number of harmless texts that are
	// near to a category: they are in a group of contrasts with a positive of it, or in a file of which at least a
	// third of the harmful rows are positives of it.
	Positives, Hard [model.NumCategories]int
}

// corpusRow is a row of the corpus with what a data sheet counts.
type corpusRow struct {
	row
	file      int
	patterned bool
}

func (r *corpusRow) positive(h int) bool { return r.Labels[categoryNames[h]] >= 0.5 }

func (r *corpusRow) harmless() bool {
	for h := range categories {
		if r.positive(h) {
			return false
		}
	}
	return true
}

// Survey counts what a training for shipping learns from: the corpus and data of [Read], as [Prepare] prepares them. It
// returns the errors of [Read], and those of the second readings.
func Survey(corpus, data fs.FS, p Preparation) (*Sheet, error) {
	s := new(Sheet)
	if err := s.countCorpus(corpus); err != nil {
		return nil, err
	}
	var err error
	if s.Readings, err = compareReadings(corpus); err != nil {
		return nil, err
	}
	all, err := Read(corpus, data)
	if err != nil {
		return nil, err
	}
	dataset := NewDataset(all, true)
	training := dataset.Splits[Training]
	s.Training, s.Calibration, s.Test = len(training), len(dataset.Splits[Calibration]), len(dataset.Splits[Test])
	s.Digest = dataset.Digest
	made := prepare(training, p)
	s.Base, s.Mineable, s.Patterns = len(made.base), len(made.plain), len(made.patterns)
	s.Disguised, s.Surrounded, s.Swapped = len(made.disguised), len(made.surrounded), len(made.swapped)
	if data == nil {
		return s, nil
	}
	return s, s.countPublic(corpus, data, all, dataset)
}

// countCorpus counts the texts of the corpus.
func (s *Sheet) countCorpus(corpus fs.FS) error {
	names, err := fs.Glob(corpus, "*.jsonl")
	if err != nil {
		return err
	}
	var rows []corpusRow
	var ends []int
	for _, name := range names {
		before := len(rows)
		if rows, err = s.readCorpusFile(rows, corpus, name); err != nil {
			return err
		}
		if len(rows) > before {
			s.Files, ends = append(s.Files, CorpusFile{Name: base(name)}), append(ends, len(rows))
		}
	}
	findPatterns(rows)
	first := 0
	for i, end := range ends {
		s.Files[i].count(rows[first:end])
		first = end
	}
	near := nearCategories(s.Files, rows)
	families, bands := make([]Coverage, len(voiceFamilies)+2), make([]Coverage, len(lengthBands)+1)
	for i := range families {
		families[i].Name = familyName(i)
	}
	for i := range bands {
		bands[i].Name = bandName(i)
	}
	for i := range rows {
		r := &rows[i]
		families[familyOf(r.Voice)].add(r, near[i])
		bands[bandOf(r.Text)].add(r, near[i])
	}
	s.Families, s.Bands = families, bands
	return nil
}

// readCorpusFile appends the rows of a file that have labels.
func (s *Sheet) readCorpusFile(rows []corpusRow, corpus fs.FS, name string) ([]corpusRow, error) {
	err := checkedLines(corpus, name, func(r row) error {
		if r.isTheme() {
			s.Themes++
			return nil
		}
		rows = append(rows, corpusRow{row: r, file: len(s.Files)})
		return r.Labels.checkCategories()
	})
	return rows, err
}

// findPatterns marks the rows that differ from another row only in words for groups of people.
func findPatterns(rows []corpusRow) {
	groups := map[string]bool{}
	for _, words := range interchangeable {
		for _, w := range words {
			groups[w] = true
		}
	}
	first := map[uint64]*corpusRow{}
	for i := range rows {
		r := &rows[i]
		pattern := wordPattern.ReplaceAllStringFunc(r.Text, func(w string) string {
			if groups[strings.ToLower(w)] {
				return "group"
			}
			return w
		})
		if other := first[key(pattern)]; other != nil {
			r.patterned, other.patterned = true, true
		} else {
			first[key(pattern)] = r
		}
	}
}

// count counts the rows of the file.
func (f *CorpusFile) count(rows []corpusRow) {
	f.Rows = len(rows)
	kinds, voices := map[string]bool{}, map[string]bool{}
	for i := range rows {
		r := &rows[i]
		if r.Kind != "" {
			kinds[r.Kind] = true
		}
		if r.Voice != "" {
			voices[r.Voice] = true
		}
		if r.Group > 0 {
			f.Grouped++
		}
		if r.patterned {
			f.Patterned++
		}
		if r.harmless() {
			f.Harmless++
		}
		for h := range f.Positives {
			if r.positive(h) {
				f.Positives[h]++
			}
		}
	}
	f.Kinds, f.Voices = len(kinds), len(voices)
}

// nearCategories returns the categories that each row is near to, see [Coverage.Hard].
func nearCategories(files []CorpusFile, rows []corpusRow) [][model.NumCategories]bool {
	const share = 3 // one third of the harmful rows of a file
	type group struct{ file, number int }
	groups := map[group][model.NumCategories]bool{}
	for i := range rows {
		if r := &rows[i]; r.Group > 0 {
			near := groups[group{r.file, r.Group}]
			for h := range near {
				near[h] = near[h] || r.positive(h)
			}
			groups[group{r.file, r.Group}] = near
		}
	}
	out := make([][model.NumCategories]bool, len(rows))
	for i := range rows {
		r := &rows[i]
		f := &files[r.file]
		if r.Group > 0 {
			out[i] = groups[group{r.file, r.Group}]
		}
		for h := range out[i] {
			if n := f.Positives[h]; n > 0 && share*n >= f.Rows-f.Harmless {
				out[i][h] = true
			}
		}
	}
	return out
}

func (c *Coverage) add(r *corpusRow, near [model.NumCategories]bool) {
	c.Rows++
	for h := range c.Positives {
		switch {
		case r.positive(h):
			c.Positives[h]++
		case near[h] && r.harmless():
			c.Hard[h]++
		}
	}
}

// voiceFamilies sort the thousands of voices of the corpus: a voice belongs to the first family of which a word or a
// sequence of words is in its name. The order is rough, because authors chose the names freely.
var voiceFamilies = []struct{ name, words string }{
	{"source code and those who write it", "code developer"},
	{"Latin American and Caribbean",
		"latin_american latam caribbean jamaican brazilian brazil mexican bahamian trini trinidadian haitian"},
	{"United States and Canada",
		"us usa american aave latino latina spanglish canadian suburban midwest texan southern"},
	{"Britain, Ireland, Australia", "uk british irish scottish welsh london australian aussie kiwi"},
	{"South Asian", "indian india pakistani bangladeshi sri lankan nepali desi"},
	{"African", "african nigerian kenyan ghanaian ugandan ethiopian yoruba pidgin africa zimbabwean tanzanian naija"},
	{"East and South-East Asian",
		"filipino philippine singapore singaporean singlish malaysian korean japanese chinese thai vietnamese " +
			"indonesian burmese manglish"},
	{"European and Middle Eastern second language",
		"esl second language european german french turkish polish russian arabic arab portuguese italian spanish " +
			"dutch swedish greek romanian hungarian finnish persian hebrew ukrainian eu"},
	{"young people and players",
		"teen teenager teens twenties gamer game gaming discord twitch player student school kid college streamer"},
	{"older people", "boomer older over50 over60 grandma grandpa uncle aunt retired retiree 40s"},
	{"assistant and bots", "ai prompt chatbot bot assistant"},
	{"edited and formal",
		"news corporate wire article encyclopedia academic legal ngo report essay wiki history professional " +
			"office email columnist document formal reviewer review"},
	{"platforms without a person",
		"reddit twitter x tweet youtube yt facebook fb instagram insta ig tiktok forum tumblr comment comments " +
			"reply chat dm telegram whatsapp post thread nextdoor craigslist linkedin 4chan app online text quora " +
			"plain anonymous"},
}

func familyOf(voice string) int {
	if voice == "" {
		return len(voiceFamilies) + 1
	}
	name := "_" + strings.ReplaceAll(strings.ToLower(voice), "-", "_") + "_"
	for i, f := range voiceFamilies {
		inName := func(word string) bool { return strings.Contains(name, "_"+word+"_") }
		if slices.ContainsFunc(strings.Fields(f.words), inName) {
			return i
		}
	}
	return len(voiceFamilies)
}

func familyName(i int) string {
	switch i {
	case len(voiceFamilies):
		return "other persons"
	case len(voiceFamilies) + 1:
		return "not named"
	}
	return voiceFamilies[i].name
}

// lengthBands are the lengths in code points at which the next band begins.
var lengthBands = []int{50, 100, 200, 500, 1000}

func bandOf(text string) int {
	n := utf8.RuneCountInString(text)
	i, found := slices.BinarySearch(lengthBands, n)
	if found {
		i++
	}
	return i
}

func bandName(i int) string {
	switch i {
	case 0:
		return fmt.Sprintf("to %d", lengthBands[0]-1)
	case len(lengthBands):
		return fmt.Sprintf("%d and more", lengthBands[i-1])
	}
	return fmt.Sprintf("%d to %d", lengthBands[i-1], lengthBands[i]-1)
}
