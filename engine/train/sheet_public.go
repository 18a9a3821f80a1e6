// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// SourceRows counts the texts of a public source, without duplicates.
type SourceRows struct {
	// Name is the name of the source, and Family that of its family.
	Name, Family string
	// Labelled texts have the source's own labels. Annotated texts have labels of the corpus.
	Labelled, Annotated int
}

// PlainFile counts the rows of a file of ordinary text.
type PlainFile struct {
	// Name is the name of the file, without folder and extension.
	Name string
	// Rows is the number of its rows, of which Annotated have labels of the corpus.
	Rows, Annotated int
	// Trained is the number of texts that a training for shipping has in its splits, and Measured that of those that
	// may only be measured, both without duplicates. MeasuredKinds are the kinds of the latter.
	Trained, Measured int
	MeasuredKinds     []string
	// HeldOut reports whether a development run holds the file out as a whole. Of a file that is Unvetted, only the
	// annotated rows are trained on.
	HeldOut, Unvetted bool
}

// AnnotatedFamily counts the annotated texts of a family of sources, without duplicates.
type AnnotatedFamily struct {
	// Name is the name of the family.
	Name string
	// Rows is the number of annotated texts. Of these, Unsure have a question mark, and to Harmless no category
	// applies.
	Rows, Unsure, Harmless int
	// Positives is the number of texts to which each category applies.
	Positives [model.NumCategories]int
}

func (f *AnnotatedFamily) add(a annotation) {
	f.Rows++
	if !a.sure {
		f.Unsure++
	}
	if len(a.labels) == 0 {
		f.Harmless++
	}
	for h, name := range categoryNames {
		if a.labels.has(name) {
			f.Positives[h]++
		}
	}
}

// sourceFamilies sort the public sources by what their texts are: a source belongs to the first family of which the
// beginning of its name is among the words.
var sourceFamilies = []struct{ name, beginnings string }{
	{"talk pages of Wikipedia", "jigsaw_"},
	{"comments and posts chosen for their tone", "paradetox civil_comments_ kaggle_insults ruddit surge_toxicity"},
	{"posts chosen for hate", "hatemoji_ stormfront implicit_hate gab_ edos_ hatexplain_ mlma_ waseem_ davidson2017 olid " +
		"toxic_tweets_ social_media_extremism"},
	{"posts on self-harm and low spirits", "suicide sdcnl twitter_suicidal_"},
	{"talk to assistants and in games", "convabuse conda_ diasafety"},
	{"everyday posts, messages and questions", "clean_ goemotions_ sms_spam lexicon"},
}

// The families of ordinary text, and of sources that are in no family.
const (
	plainFamily    = "ordinary text"
	documentFamily = "ordinary text, whole documents"
	otherFamily    = "other sources"
)

func familyOfSource(source string) string {
	for _, f := range sourceFamilies {
		begins := func(beginning string) bool { return strings.HasPrefix(source, beginning) }
		if slices.ContainsFunc(strings.Fields(f.beginnings), begins) {
			return f.name
		}
	}
	return otherFamily
}

// annotated counts annotated texts, each once.
type annotated struct {
	annotations map[string]annotation
	seen        map[uint64]bool
	families    []AnnotatedFamily
}

// count counts a text if it is annotated and was not seen, and reports whether it did.
func (c *annotated) count(text, family string) bool {
	k := key(text)
	a, ok := c.annotations[Key(text)]
	if !ok || c.seen[k] {
		return false
	}
	c.seen[k] = true
	for i := range c.families {
		if c.families[i].Name == family {
			c.families[i].add(a)
		}
	}
	return true
}

// countPublic counts the texts of each public source without duplicates, those of ordinary text, and those of both that
// are annotated.
func (s *Sheet) countPublic(corpus, data fs.FS, all []Example, dataset *Dataset) error {
	used := map[string]int{}
	for _, split := range dataset.Splits {
		for i := range split {
			if e := &split[i]; !e.InCorpus {
				used[e.Source]++
			}
		}
	}
	annotations, err := readAnnotations(corpus)
	if err != nil {
		return err
	}
	c := annotated{annotations: annotations, seen: map[uint64]bool{}}
	for i := range all {
		if e := &all[i]; e.InCorpus && e.Source != "annotated" {
			c.seen[key(e.Text)] = true
		}
	}
	for _, f := range sourceFamilies {
		c.families = append(c.families, AnnotatedFamily{Name: f.name})
	}
	for _, name := range []string{plainFamily, documentFamily, otherFamily} {
		c.families = append(c.families, AnnotatedFamily{Name: name})
	}
	for _, source := range sources {
		n := SourceRows{Name: source.name, Family: familyOfSource(source.name), Labelled: used[source.name]}
		err := lines(data, "moderation/"+source.name+".jsonl.gz", func(r row) {
			if c.count(r.Text, n.Family) {
				n.Annotated++
			}
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.Sources = append(s.Sources, n)
	}
	n := SourceRows{Name: "lexicon", Family: familyOfSource("lexicon"), Labelled: used["lexicon"]}
	s.Sources = append(s.Sources, n)
	if err := s.countPlain(data, &c, dataset); err != nil {
		return err
	}
	s.Annotated = len(annotations)
	s.Annotations = slices.DeleteFunc(c.families, func(f AnnotatedFamily) bool { return f.Rows == 0 })
	return nil
}

// countPlain counts the rows of the files of ordinary text.
func (s *Sheet) countPlain(data fs.FS, c *annotated, dataset *Dataset) error {
	names, err := plainFiles(data)
	if err != nil {
		return err
	}
	byName := map[string]*PlainFile{}
	for _, name := range names {
		f := &PlainFile{Name: base(name)}
		f.HeldOut = slices.Contains(heldOutRegisters, f.Name)
		f.Unvetted = slices.Contains(unvettedPlain, f.Name)
		family := plainFamily
		if e := (Example{Register: f.Name}); e.IsDocument() {
			family = documentFamily
		}
		err := lines(data, name, func(r row) {
			f.Rows++
			if c.count(r.Text, family) {
				f.Annotated++
			}
		})
		if err != nil {
			return err
		}
		byName[f.Name] = f
	}
	for _, split := range dataset.Splits {
		for i := range split {
			e := &split[i]
			f := byName[e.Register]
			switch {
			case f == nil:
			case !e.Measured:
				f.Trained++
			default:
				f.Measured++
				if !slices.Contains(f.MeasuredKinds, e.Kind) {
					f.MeasuredKinds = append(f.MeasuredKinds, e.Kind)
				}
			}
		}
	}
	for _, name := range names {
		f := byName[base(name)]
		slices.Sort(f.MeasuredKinds)
		s.Plain = append(s.Plain, *f)
	}
	return nil
}
