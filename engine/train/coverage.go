// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"
)

// Categories is the number of heads that are categories of a verdict; they come first among the heads.
const Categories = categories

// Priors are the shares of traffic, from 0 to 1, that calibration assumes to be harmful in the way of each category.
func Priors() (out [Categories]float64) {
	for h := range out {
		out[h] = prior(h)
	}
	return out
}

// AttributePrior is the share of traffic, from 0 to 1, of which calibration assumes that an attribute applies.
func AttributePrior() float64 { return prior(categories) }

// OrdinaryShare is the part of the harmless traffic, from 0 to 1, that calibration assumes to be ordinary; the rest looks
// like harm and is not.
const OrdinaryShare = ordinary

// Copies are the shares of the written texts, from 0 to 1, of which a training makes copies.
type Copies struct {
	// Disguise, Surround and Swap are the shares that [Augment], [Surround] and [Swap] take.
	Disguise, Surround, Swap float64
}

// Sheet is a data sheet: what a training for shipping learns from.
type Sheet struct {
	// Files are the files of the project's own texts, by name.
	Files []OwnFile
	// Themes are the rows of them that pair a text with a theme; the classifier does not learn from them.
	Themes int
	// Families and Bands cover the project's own texts by who speaks and by length.
	Families, Bands []Cover
	// Sources are the sources of scraped texts, in the order of the table of sources, and last the lexicons.
	Sources []SourceRows
	// Learn, Tune and Judge are the texts without duplicates that weights are fitted on, that probabilities are calibrated
	// on, and that are set apart.
	Learn, Tune, Judge int
	// Disguised, Surrounded and Swapped are the copies that are added to Learn.
	Disguised, Surrounded, Swapped int
	// Patterns is the number of texts that [Neutral] makes.
	Patterns int
	// Digest is the SHA-256 over all examples, in hex: see [Pool].
	Digest string
}

// OwnFile counts the rows of one file of the project's own texts.
type OwnFile struct {
	// Name is the name of the file without folder and extension.
	Name string
	// Rows have labels; Harmless of them have no category. Grouped are in a group of contrasts, and Patterned are another
	// row but for its words for groups of people.
	Rows, Harmless, Grouped, Patterned int
	// Kinds and Voices are the different kinds of text and voices that the file names.
	Kinds, Voices int
	// Positives are the rows of each category.
	Positives [Categories]int
}

// Cover counts the project's own texts of one family of voices or one band of lengths.
type Cover struct {
	// Name is the name of the family, or the lengths in characters.
	Name string
	// Rows are all of them.
	Rows int
	// Positives are the rows of each category. Hard are harmless rows that are near to a category: they stand in a group of
	// contrasts with a positive of it, or in a file of which a third of the harmful rows and more are of that category.
	Positives, Hard [Categories]int
}

// SourceRows counts the texts of a source of scraped texts, without duplicates.
type SourceRows struct {
	Name string
	// Scraped are learned from by the source's own labels, Annotated by labels that were given for this project.
	Scraped, Annotated int
}

// ownRow is a row of the project's own texts with all that a data sheet tells.
type ownRow struct {
	row
	file      int
	patterned bool
}

func (r *ownRow) positive(h int) bool { return r.Labels[annotationNames[h]] >= 0.5 }

func (r *ownRow) harmless() bool {
	for h := range categories {
		if r.positive(h) {
			return false
		}
	}
	return true
}

// annotationNames are the names of the categories in the rows of the corpus.
var annotationNames = [Categories]string{"hate", "harassment", "self-harm", "sexual", "violence"}

// Survey counts what a training for shipping learns from: the corpus and data of [Read], and copies of the given shares
// with the given seed.
func Survey(corpus, data fs.FS, copies Copies, seed uint64) (*Sheet, error) {
	s := new(Sheet)
	if err := s.own(corpus); err != nil {
		return nil, err
	}
	all, err := Read(corpus, data)
	if err != nil {
		return nil, err
	}
	pool := NewPool(all, true)
	learn := pool.Splits[Training]
	s.Learn, s.Tune, s.Judge, s.Digest = len(learn), len(pool.Splits[Calibration]), len(pool.Splits[Test]), pool.Digest
	s.Disguised, s.Surrounded, s.Swapped = len(Augment(learn, copies.Disguise, seed)), len(Surround(learn, copies.Surround, seed)), len(Swap(learn, copies.Swap, seed))
	s.Patterns = len(Neutral())
	if data == nil {
		return s, nil
	}
	return s, s.scraped(corpus, data, all, pool)
}

// own counts the project's own texts.
func (s *Sheet) own(corpus fs.FS) error {
	names, err := fs.Glob(corpus, "*.jsonl")
	if err != nil {
		return err
	}
	var rows []ownRow
	var ends []int
	for _, name := range names {
		before := len(rows)
		if rows, err = s.readOwn(rows, corpus, name); err != nil {
			return err
		}
		if len(rows) > before {
			s.Files, ends = append(s.Files, OwnFile{Name: base(name)}), append(ends, len(rows))
		}
	}
	findPatterns(rows)
	first := 0
	for i, end := range ends {
		s.Files[i].count(rows[first:end])
		first = end
	}
	near := nearness(s.Files, rows)
	families, bands := make([]Cover, len(voiceFamilies)+2), make([]Cover, len(lengthBands)+1)
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

// readOwn appends the rows of a file that have labels.
func (s *Sheet) readOwn(rows []ownRow, corpus fs.FS, name string) ([]ownRow, error) {
	file, err := fs.ReadFile(corpus, name)
	if err != nil {
		return nil, err
	}
	n := 0
	for line := range strings.Lines(string(file)) {
		n++
		if strings.TrimSpace(line) == "" {
			continue
		}
		r := ownRow{file: len(s.Files)}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, n, err)
		}
		if r.Hit != nil || len(r.Labels) == 0 {
			s.Themes++
			continue
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// findPatterns marks the rows that are others but for their words for groups of people.
func findPatterns(rows []ownRow) {
	groups := map[string]bool{}
	for _, words := range interchangeable {
		for _, w := range words {
			groups[w] = true
		}
	}
	first := map[uint64]*ownRow{}
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

func (f *OwnFile) count(rows []ownRow) {
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

// nearness says of each row which categories it is near to, see [Cover].
func nearness(files []OwnFile, rows []ownRow) [][Categories]bool {
	const share = 3 // one in so many of the harmful rows of a file
	type group struct{ file, number int }
	groups := map[group][Categories]bool{}
	for i := range rows {
		if r := &rows[i]; r.Group > 0 {
			near := groups[group{r.file, r.Group}]
			for h := range near {
				near[h] = near[h] || r.positive(h)
			}
			groups[group{r.file, r.Group}] = near
		}
	}
	out := make([][Categories]bool, len(rows))
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

func (c *Cover) add(r *ownRow, near [Categories]bool) {
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

// voiceFamilies put the thousands of voices of the corpus in some order: a voice belongs to the first family of which a word
// or a sequence of words stands in its name. It is a rough order by the names that the writers gave.
var voiceFamilies = []struct{ name, words string }{
	{"source code and those who write it", "code developer"},
	{"Latin American and Caribbean", "latin_american latam caribbean jamaican brazilian brazil mexican bahamian trini trinidadian haitian"},
	{"United States and Canada", "us usa american aave latino latina spanglish canadian suburban midwest texan southern"},
	{"Britain, Ireland, Australia", "uk british irish scottish welsh london australian aussie kiwi"},
	{"South Asian", "indian india pakistani bangladeshi sri lankan nepali desi"},
	{"African", "african nigerian kenyan ghanaian ugandan ethiopian yoruba pidgin africa zimbabwean tanzanian naija"},
	{"East and South-East Asian", "filipino philippine singapore singaporean singlish malaysian korean japanese chinese thai vietnamese indonesian burmese manglish"},
	{"European and Middle Eastern second language", "esl second language european german french turkish polish russian arabic arab portuguese italian spanish dutch swedish " +
		"greek romanian hungarian finnish persian hebrew ukrainian eu"},
	{"young people and players", "teen teenager teens twenties gamer game gaming discord twitch player student school kid college streamer"},
	{"older people", "boomer older over50 over60 grandma grandpa uncle aunt retired retiree 40s"},
	{"assistant and bots", "ai prompt chatbot bot assistant"},
	{"edited and formal", "news corporate wire article encyclopedia academic legal ngo report essay wiki history professional office email columnist document formal reviewer review"},
	{"platforms without a person", "reddit twitter x tweet youtube yt facebook fb instagram insta ig tiktok forum tumblr comment comments reply chat dm telegram whatsapp " +
		"post thread nextdoor craigslist linkedin 4chan app online text quora plain anonymous"},
}

func familyOf(voice string) int {
	if voice == "" {
		return len(voiceFamilies) + 1
	}
	name := "_" + strings.ReplaceAll(strings.ToLower(voice), "-", "_") + "_"
	for i, f := range voiceFamilies {
		if slices.ContainsFunc(strings.Fields(f.words), func(w string) bool { return strings.Contains(name, "_"+w+"_") }) {
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

// lengthBands are the lengths in characters, Unicode code points, from which the next band begins.
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

// scraped counts the scraped texts that are left without duplicates, and what was annotated of each source.
func (s *Sheet) scraped(corpus, data fs.FS, all []Example, pool *Pool) error {
	used := map[string]int{}
	for _, split := range pool.Splits {
		for i := range split {
			if e := &split[i]; !e.InCorpus {
				used[e.Source]++
			}
		}
	}
	seen := map[uint64]bool{}
	for i := range all {
		if e := &all[i]; e.InCorpus && e.Source != "annotated" {
			seen[key(e.Text)] = true
		}
	}
	annotations, err := readAnnotations(corpus)
	if err != nil {
		return err
	}
	for _, source := range sources {
		n := SourceRows{Name: source.name, Scraped: used[source.name]}
		err := lines(data, "moderation/"+source.name+".jsonl.gz", func(r row) {
			k := key(r.Text)
			if _, ok := annotations[fmt.Sprintf("%016x", k)]; ok && !seen[k] {
				seen[k] = true
				n.Annotated++
			}
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.Sources = append(s.Sources, n)
	}
	s.Sources = append(s.Sources, SourceRows{Name: "lexicon", Scraped: used["lexicon"]})
	return nil
}
