// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Ordinary text without labels is in the folder plain of the data: files of passages and posts of many registers, and
// files of whole documents, whose names begin with "long_". What is in it is harmless by nature, so that whatever a
// classifier flags there is a false alarm, except for rows that were annotated otherwise.

// unvettedPlain are the files of ordinary text in which several rows in a hundred may be harmful. Their rows are used
// only where they are annotated; whole documents without annotations are measured.
var unvettedPlain = []string{"game_dialogue_fiction", "reddit_titles_2013", "long_roleplay_game"}

// measuredKinds and measuredFiles are the kinds and files of ordinary text of which a part is, or may be, under terms
// that rule out commercial use. They are measured and never trained on.
var (
	measuredKinds = []string{
		"encyclopedia_simple", "gender_identity", "gum_fiction", "gum_whow", "learner_essay", "technical_book", "textbook",
	}
	measuredFiles = []string{"assistant_requests", "counselling"}
)

// heldOutRegisters are the files of ordinary text that a development run holds out as a whole.
var heldOutRegisters = []string{
	"counselling", "court_opinions", "email_mailing_lists", "long_court", "long_email", "long_meetings",
	"long_roleplay_game", "movie_chat_cmu_dog", "poems_and_plays", "religion", "reviews_apps_travel",
	"roleplay_game_crd3", "statutes_dc",
}

// otherLanguages is a file of harmless sentences in twenty other languages, and otherLanguagesOneOf says how many of
// them are used: one in so many. They teach that words that nobody knows mean nothing.
const (
	otherLanguages      = "languages/benign_tatoeba.jsonl.gz"
	otherLanguagesOneOf = 16
)

// plainWeight is the weight of the labels of ordinary text.
const plainWeight = 0.8

// readPlain reads the ordinary texts. A missing folder is an empty one.
func readPlain(data fs.FS, annotations map[string]annotation) ([]Example, error) {
	names, err := plainFiles(data)
	if err != nil {
		return nil, err
	}
	var out []Example
	for _, name := range names {
		register := base(name)
		n := 0
		unvetted := slices.Contains(unvettedPlain, register)
		err := lines(data, name, func(r row) {
			if n++; name == otherLanguages && n%otherLanguagesOneOf != 0 {
				return
			}
			e := plainExample(r, register)
			a, annotated := annotations[Key(r.Text)]
			switch {
			case annotated:
				a.annotate(&e)
			case unvetted && e.IsDocument():
				// Too long for a reader, but worth a measurement.
				e.Measured = true
			case unvetted:
				return
			}
			out = append(out, e)
		})
		if err != nil {
			return nil, fmt.Errorf("reading ordinary text: %w", err)
		}
	}
	return out, nil
}

// plainFiles returns the names of the files of ordinary text that the data have.
func plainFiles(data fs.FS) ([]string, error) {
	names, err := fs.Glob(data, "plain/*.jsonl.gz")
	if err != nil {
		return nil, err
	}
	if _, err := fs.Stat(data, otherLanguages); err == nil {
		names = append(names, otherLanguages)
	}
	return names, nil
}

// plainExample makes an example of a row of ordinary text, which is harmless unless somebody found otherwise.
func plainExample(r row, register string) Example {
	e := Example{Text: r.Text, Source: register, Kind: r.Kind, Register: register}
	e.Measured = slices.Contains(measuredKinds, r.Kind) || slices.Contains(measuredFiles, register)
	e.benign(plainWeight)
	// What is harmless by the definitions of the categories is not always so to a crowd, and mild swearing was left in.
	for h := categories; h < numHeads; h++ {
		e.set(0, plainWeight/4, h)
	}
	return e
}

// ReadUnvetted reads the ordinary texts of which several in a hundred may be harmful. [Read] leaves them out unless
// they are annotated or whole documents, which are then only measured. Their labels say that they are harmless, which
// nobody has checked.
func ReadUnvetted(data fs.FS) ([]Example, error) {
	var out []Example
	for _, register := range unvettedPlain {
		err := lines(data, "plain/"+register+".jsonl.gz", func(r row) { out = append(out, plainExample(r, register)) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading ordinary text: %w", err)
		}
	}
	return out, nil
}

// IsDocument reports whether the example is a whole document of ordinary text, of thousands of characters.
func (e *Example) IsDocument() bool { return strings.HasPrefix(e.Register, "long_") }

// pieceLength is the length in bytes of the pieces that documents are cut into for training, which does not look
// further.
const pieceLength = 1200

// Pieces returns the examples with documents cut into pieces at the ends of sentences.
func Pieces(examples []Example) []Example {
	var out []Example
	for _, e := range examples {
		if !e.IsDocument() {
			out = append(out, e)
			continue
		}
		for rest := e.Text; rest != ""; {
			end := len(rest)
			if end > pieceLength {
				end = sentenceEnd(rest, pieceLength)
			}
			piece := e
			piece.Text = strings.TrimSpace(rest[:end])
			rest = rest[end:]
			if piece.Text != "" {
				out = append(out, piece)
			}
		}
	}
	return out
}

// sentenceEnd returns the position behind the first end of a sentence or line from a position on, or the length.
func sentenceEnd(text string, from int) int {
	for i := from; i < len(text); i++ {
		switch text[i] {
		case '\n':
			return i + 1
		case '.', '!', '?':
			if i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == '\n') {
				return i + 2
			}
		}
	}
	return len(text)
}

// splitPlain takes apart the examples that a training uses at once and the ordinary texts that it mines: of those
// without annotations, one in every is used at once. Documents are cut into pieces.
func splitPlain(examples []Example, every int) (base, rest []Example) {
	n := 0
	for _, e := range Pieces(examples) {
		switch {
		case e.Register == "" || e.InCorpus:
			base = append(base, e)
			continue
		case n%every == 0:
			base = append(base, e)
		default:
			rest = append(rest, e)
		}
		n++
	}
	return base, rest
}

// Preparation says what [Prepare] does.
type Preparation struct {
	// PublicWeight is the factor on the weights of the category labels of public sources.
	PublicWeight float64
	// PlainEvery is such that one in so many ordinary texts is trained on without being mined, at least 1.
	PlainEvery int
	// Copies are the copies to add.
	Copies Copies
	// Seed seeds the copies.
	Seed uint64
	// Language is the BCP 47 tag of the language, "" for English. Sentences from patterns and swapped groups of people
	// are English.
	Language string
}

// DefaultPreparation is what the commands prepare unless they are told otherwise.
func DefaultPreparation() Preparation {
	return Preparation{
		PublicWeight: 0.15, PlainEvery: 8, Copies: Copies{Disguise: 0.3, Surround: 0.2, Swap: 0.3},
	}
}

// Prepare makes of the training split what the classifier is fitted on, with copies, and the ordinary texts from which
// [Mine] takes hard negatives.
func Prepare(training []Example, p Preparation) (texts, plain []Example) {
	all := prepare(training, p)
	return slices.Concat(all.base, all.disguised, all.surrounded, all.swapped, all.patterns), all.plain
}

// prepared holds what [Prepare] makes of the training split. base are the texts that are trained on as they are, and
// plain those that are mined.
type prepared struct{ base, disguised, surrounded, swapped, patterns, plain []Example }

func prepare(training []Example, p Preparation) prepared {
	texts, plain := splitPlain(training, p.PlainEvery)
	Reweigh(texts, float32(p.PublicWeight))
	Reweigh(plain, float32(p.PublicWeight))
	out := prepared{
		base: texts, plain: plain,
		disguised:  Augment(texts, p.Copies.Disguise, p.Seed),
		surrounded: Surround(texts, p.Copies.Surround, p.Seed),
	}
	if p.Language == "" {
		out.patterns, out.swapped = Patterns(), Swap(texts, p.Copies.Swap, p.Seed)
	} else {
		out.patterns = Gibberish(texts, p.Seed)
	}
	return out
}
