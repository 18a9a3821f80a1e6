// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// mixedIn is the source of English texts among those of another language. Their words are not words of the language.
const mixedIn = "english"

// Mix says how much of the English corpus joins the texts of another language.
type Mix struct {
	// English is the share of the English texts, from 0 to 1, that are added as they are: people who write in other
	// languages insult in English, too. They have a quarter of their weight.
	English float64
	// Translated is the factor on the weights of the English texts that are turned into the language by the glossary. 0
	// adds none.
	Translated float64
	// Seed seeds the translation.
	Seed uint64
}

// ReadLanguage reads all files that a model of another language than English is trained on. The folder of the corpus
// that has the tag of the language as its name holds its own texts, in the format of [ReadSheet], and annotations.tsv.
// data holds the folder languages with the public sources. glossary may be nil.
func ReadLanguage(corpus, data fs.FS, language string, glossary *Glossary, mix Mix) ([]Example, error) {
	sheets, err := fs.Glob(corpus, language+"/*.txt")
	if err != nil {
		return nil, err
	}
	var all []Example
	for n, name := range sheets {
		rows, err := ReadSheet(corpus, name)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if rows[i].Group > 0 {
				rows[i].Group += 10_000 * (n + 1)
			}
		}
		all = append(all, rows...)
	}
	if data == nil {
		return all, nil
	}
	public, err := ReadPublic(corpus, data, language)
	if err != nil {
		return nil, err
	}
	public = labelled(public)
	slices.SortStableFunc(public, func(a, b Example) int { // annotated rows first: their labels are not overruled
		return int(indicator(b.InCorpus)) - int(indicator(a.InCorpus))
	})
	all = append(all, public...)
	english, err := Read(corpus, nil)
	if err != nil {
		return nil, err
	}
	all = append(all, glossary.Translated(english, float32(mix.Translated), mix.Seed)...)
	if glossary != nil && mix.Translated > 0 {
		plain, err := readPlain(data, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, glossary.Translated(ordinarySample(plain), float32(mix.Translated), mix.Seed+1)...)
	}
	for i, e := range english {
		if float64(i%100) < 100*mix.English {
			e.Source, e.Group = mixedIn, 0
			for h := range e.Labels {
				e.Labels[h].Weight /= 4
			}
			e.InCorpus = false
			all = append(all, e)
		}
	}
	return all, nil
}

// ordinarySample returns some 40,000 short ordinary texts of all registers.
func ordinarySample(plain []Example) (out []Example) {
	const wanted, longest = 40_000, 400
	short := slices.DeleteFunc(plain, func(e Example) bool {
		return e.Measured || len(e.Text) > longest || e.Register == base(otherLanguages)
	})
	every := max(1, len(short)/wanted)
	for i := 0; i < len(short); i += every {
		out = append(out, short[i])
	}
	return out
}

// ReadSheet reads a file of the corpus in another language. It is plain text. A line "@ kind voice" says what the rows
// after it are and who speaks. A row is the letters of its categories, as in annotations.tsv, a bar and the text. A
// plus before the letters says that the row and the one before it are contrasts. An error names the file and line.
func ReadSheet(files fs.FS, name string) ([]Example, error) {
	file, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	var all []Example
	kind, groups, n := "", 0, 0
	previous := -1 // index of the row above
	for line := range strings.Lines(string(file)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" {
			previous = -1
			continue
		}
		if rest, ok := strings.CutPrefix(line, "@"); ok {
			fields := strings.Fields(rest)
			if len(fields) != 2 {
				return nil, fmt.Errorf("%s, line %d: want @, a kind and a voice", name, n)
			}
			kind, previous = fields[0], -1
			continue
		}
		letters, text, ok := strings.Cut(line, "|")
		letters, contrast := strings.CutPrefix(letters, "+")
		labels, known := labelsOf(letters)
		text = strings.TrimSpace(text)
		if !ok || !known || text == "" || contrast && previous < 0 {
			return nil, fmt.Errorf("%s, line %d: want letters of hrsxv or -, a bar and a text", name, n)
		}
		e := Example{Text: text, Source: base(strings.TrimSuffix(name, ".txt")), Kind: kind, InCorpus: true}
		setCorpusLabels(labels, weightCorpus, &e)
		if contrast {
			if all[previous].Group == 0 {
				groups++
				all[previous].Group = groups
			}
			e.Group = all[previous].Group
		}
		previous = len(all)
		all = append(all, e)
	}
	return all, nil
}

// labelsOf returns the labels that letters stand for, and whether they are known.
func labelsOf(letters string) (sourceLabels, bool) {
	labels := sourceLabels{}
	if letters == "-" {
		return labels, true
	}
	for _, c := range letters {
		category, known := annotationLetters[c]
		if !known {
			return nil, false
		}
		labels[category] = 1
	}
	return labels, letters != ""
}

// languageSource says how the labels of a public source in other languages map to the heads.
type languageSource struct {
	name string
	// limit is the maximum number of rows of a language to take. 0 takes all.
	limit int
	// plain says that the rows are ordinary text, harmless by nature.
	plain bool
	label func(n sourceLabels, e *Example)
}

// crowd maps a label that says whether a text is offensive to a crowd, with the weights of yes and no.
func crowd(key string, yes, no float32) func(sourceLabels, *Example) {
	return func(n sourceLabels, e *Example) {
		if n[key] >= 0.5 {
			e.set(1, yes, toxicity)
			e.set(0.7, yes/3, harassment)
			return
		}
		e.notToxic(no)
	}
}

// hateful maps a label that says whether a text is hateful. Insults without a group are negative there, so a no says
// nothing about them.
func hateful(key string, yes, no float32) func(sourceLabels, *Example) {
	return func(n sourceLabels, e *Example) {
		if n[key] >= 0.5 {
			e.set(1, yes, hate, identity, toxicity)
			return
		}
		e.set(0, no, hate, identity)
	}
}

// feelings maps ordinary text that is sorted by feeling. Angry and disgusted texts may be rude and say nothing.
func feelings(weight float32) func(sourceLabels, *Example) {
	return func(n sourceLabels, e *Example) {
		if n["emotion:anger"]+n["emotion:disgust"]+n["emotion:sadness"]+n["emotion:fear"]+n["sentiment:negative"] > 0 {
			return
		}
		e.benign(weight)
	}
}

// profaneWord maps lists of bad words.
func profaneWord(_ sourceLabels, e *Example) {
	e.set(1, 0.3, profanity)
	e.set(1, 0.2, toxicity)
}

// languageSources maps the public sources in other languages. Those under terms that rule out commercial use are not
// among them.
var languageSources = []languageSource{
	{name: "offendes_train_dev", label: func(n sourceLabels, e *Example) {
		if n["offensive"] >= 0.5 {
			e.set(1, 0.5, toxicity)
			e.set(1, 0.4, harassment)
			return
		}
		e.notToxic(0.5)
		if n["label:NOE"] >= 0.5 {
			e.set(1, 0.5, profanity)
		}
	}},
	{name: "jigsaw_multilingual_validation", label: crowd("toxic", 0.8, 0.6)},
	{name: "germeval2018_train", label: func(n sourceLabels, e *Example) {
		switch {
		case n["fine:ABUSE"] >= 0.5:
			e.set(1, 0.3, hate, identity)
			e.set(1, 0.6, toxicity)
		case n["fine:INSULT"] >= 0.5:
			e.set(1, 0.4, harassment)
			e.set(1, 0.6, toxicity, insult)
		case n["fine:PROFANITY"] >= 0.5:
			e.set(1, 0.6, toxicity, profanity)
		default:
			e.notToxic(0.5)
		}
	}},
	{name: "germeval2021_train", label: crowd("toxic", 0.5, 0.4)},
	{name: "hasoc2019_de", label: hasoc},
	{name: "gahd_train_dev", label: hateful("hate", 0.8, 0.6)},
	{name: "iwg_de_refugees", label: hateful("hate_expert1", 0.4, 0.3)},
	{name: "toxifrench_balanced", label: crowd("toxic", 0.8, 0.7)},
	{name: "toxifrench_agreement", label: crowd("toxic", 0.8, 0.7)},
	{name: "jigsaw_fr_machine_translated", label: jigsaw},
	{name: "told_br", label: func(n sourceLabels, e *Example) {
		if n["toxic_any"] < 0.34 {
			e.notToxic(0.5)
			return
		}
		if n["toxic_any"] < 0.66 {
			return
		}
		e.set(1, 0.5, toxicity)
		if n["obscene"] >= 0.66 {
			e.set(1, 0.6, profanity)
		}
		if n["insult"] >= 0.66 {
			e.set(1, 0.5, insult)
			e.set(1, 0.3, harassment)
		}
		if n["homophobia"] >= 0.66 || n["misogyny"] >= 0.66 || n["xenophobia"] >= 0.66 || n["racism"] >= 0.66 {
			e.set(1, 0.5, hate, identity)
		}
	}},
	{name: "tupy", label: func(n sourceLabels, e *Example) {
		switch {
		case n["hate"] >= 0.5:
			e.set(1, 0.4, hate, identity)
			e.set(1, 0.5, toxicity)
		case n["aggressive"] >= 0.5:
			e.set(1, 0.5, toxicity)
			e.set(0.7, 0.2, harassment)
		default:
			e.notToxic(0.5)
		}
	}},
	{name: "fortuna_pt", label: hateful("hate", 0.2, 0.2)},
	{name: "poleval2019_pl_train", label: crowd("harmful", 0.7, 0.5)},
	{name: "russe_detox_train", limit: 12_000, label: crowd("toxic", 0.5, 0.4)},
	{name: "ru_toxic_10k_positives", limit: 3_000, label: crowd("toxic", 0.4, 0)},
	{name: "offenseval2020_tr_train", label: crowd("offensive", 0.5, 0.5)},
	{name: "teknofest_tr", label: func(n sourceLabels, e *Example) {
		switch {
		case n["target:INSULT"] >= 0.5:
			e.set(1, 0.4, harassment, insult, toxicity)
		case n["target:RACIST"] >= 0.5, n["target:SEXIST"] >= 0.5:
			e.set(1, 0.4, hate, identity, toxicity)
		case n["target:PROFANITY"] >= 0.5:
			e.set(1, 0.5, profanity, toxicity)
		default:
			e.notToxic(0.5)
		}
	}},
	{name: "toygar_tr", limit: 2_000, label: crowd("offensive", 0.2, 0)},
	{name: "offenseval2020_ar_train", label: crowd("offensive", 0.5, 0.5)},
	{name: "lhsab", label: hsab},
	{name: "thsab", label: hsab},
	{name: "offenseval2020_el_train", label: crowd("offensive", 0.5, 0.5)},
	{name: "dkhate_da_train", label: crowd("offensive", 0.6, 0.5)},
	{name: "hasoc_hi_train", label: hasoc},
	{name: "bohra_hinglish", label: hateful("hate", 0.2, 0.2)},
	{name: "trac1_hi_train", label: func(n sourceLabels, e *Example) {
		switch {
		case n["agg:OAG"] >= 0.5:
			e.set(1, 0.3, toxicity)
		case n["agg:NAG"] >= 0.5:
			e.notToxic(0.5)
		}
	}},
	{name: "id_hatespeech_alfina", label: hateful("hate", 0.4, 0.4)},
	{name: "cold_zh_train_dev", limit: 12_000, label: func(n sourceLabels, e *Example) { // half of it by a machine
		if n["offensive"] >= 0.5 {
			e.set(1, 0.15, toxicity, hate, identity)
		} else {
			e.set(0, 0.3, hate, harassment, violence, sexual, toxicity, identity, insult)
		}
	}},
	{name: "swsr_zh", label: func(n sourceLabels, e *Example) {
		switch {
		case n["sexist"] < 0.5:
			e.notToxic(0.3)
		case n["cat:SCB"] >= 0.5, n["cat:MA"] >= 0.5:
			e.set(1, 0.3, hate, identity, toxicity)
		}
	}},
	{name: "beep_ko_train", label: func(n sourceLabels, e *Example) {
		switch {
		case n["hate"] >= 0.5:
			e.set(1, 0.5, toxicity, insult)
			e.set(1, 0.3, harassment)
		case n["offensive"] >= 0.5:
			e.set(0.7, 0.3, toxicity)
		default:
			e.notToxic(0.5)
		}
	}},
	{name: "kmhas_ko_valid", label: func(n sourceLabels, e *Example) {
		switch {
		case n["cat:not_hate"] >= 0.5:
			e.notToxic(0.5)
		case n["cat:profanity"] >= 0.5:
			e.set(1, 0.6, profanity, toxicity)
		case n["cat:origin"]+n["cat:gender"]+n["cat:age"]+n["cat:religion"]+n["cat:race"] > 0:
			e.set(1, 0.4, hate, identity, toxicity)
		default:
			e.set(1, 0.3, toxicity)
		}
	}},
	{name: "curse_ko", label: func(n sourceLabels, e *Example) {
		if n["curse"] >= 0.5 {
			e.set(1, 0.6, profanity, toxicity)
		} else {
			e.notToxic(0.5)
		}
	}},
	{name: "victsd_train_dev", label: crowd("toxic", 0.5, 0.5)},
	{name: "xsafety_prompts", label: func(n sourceLabels, e *Example) {
		if n["cat:mental_health"] >= 0.5 {
			e.set(0, 0.2, hate, harassment, sexual, violence)
		}
	}},
	{name: "lexicon_hinglish_profanity", label: profaneWord},
	{name: "lexicon_ja_inappropriate", label: profaneWord},
	{name: "lexicon_nl_groflex", label: profaneWord},
	{name: "lexicon_ru_obscene", limit: 3_000, label: profaneWord},
	{name: "lexicon_zh_sexhatelex", label: profaneWord},

	{name: "langid_tatoeba_laser", plain: true, label: clean(0.5)},
	{name: "benign_tatoeba", plain: true, label: clean(0.5)},
	{name: "benign_tweets_xlmt_train", plain: true, label: feelings(0.3)},
	{name: "benign_ud_treebanks", plain: true, label: func(n sourceLabels, e *Example) {
		if n["licence:nc"] < 0.5 {
			e.benign(0.6)
		}
	}},
	{name: "subtitles_xed", plain: true, label: feelings(0.3)},
	{name: "benign_xquad", plain: true, label: clean(0.6)},
	{name: "benign_reviews_zh", plain: true, label: feelings(0.5)},
	{name: "benign_indonlu_id", plain: true, label: feelings(0.4)},
	{name: "benign_news_titles_ko", plain: true, label: clean(0.6)},
	{name: "benign_codemixed_hinglish", plain: true, label: func(n sourceLabels, e *Example) {
		if n["source:humour"] >= 0.5 || n["source:sarcasm"] >= 0.5 {
			e.benign(0.2)
		}
	}},
}

func hasoc(n sourceLabels, e *Example) {
	switch {
	case n["hof"] < 0.5:
		e.notToxic(0.4)
	case n["type:HATE"] >= 0.5:
		e.set(1, 0.3, hate, identity, toxicity)
	case n["type:PRFN"] >= 0.5:
		e.set(1, 0.5, profanity, toxicity)
	default:
		e.set(1, 0.4, toxicity)
		e.set(1, 0.2, harassment)
	}
}

func hsab(n sourceLabels, e *Example) {
	switch {
	case n["label:hate"] >= 0.5:
		e.set(1, 0.5, hate, identity, toxicity)
	case n["label:abusive"] >= 0.5:
		e.set(1, 0.5, harassment, insult, toxicity)
	default:
		e.notToxic(0.5)
	}
}

// read reads the rows in a language, spread evenly over the file if there is a limit, and all rows that are annotated.
func (s languageSource) read(data fs.FS, language string, annotations map[string]annotation) ([]Example, error) {
	var rows []row
	err := lines(data, "languages/"+s.name+".jsonl.gz", func(r row) {
		if languageOf(r.Lang) == language {
			rows = append(rows, r)
		}
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	every := 1
	if s.limit > 0 {
		every = max(1, len(rows)/s.limit)
	}
	var out []Example
	for i, r := range rows {
		a, annotated := annotations[Key(r.Text)]
		if i%every != 0 && !annotated {
			continue
		}
		e := Example{Text: r.Text, Source: s.name}
		if strings.HasPrefix(s.name, "lexicon_") {
			e.Source = "lexicon"
		}
		if s.plain {
			e.Register = s.name
		}
		s.label(r.Labels, &e)
		if annotated {
			a.annotate(&e)
		}
		out = append(out, e)
	}
	return out, nil
}

// labelled returns the examples that have a label of a head.
func labelled(examples []Example) []Example {
	return slices.DeleteFunc(examples, func(e Example) bool { return e.Labels == Example{}.Labels })
}

// ReadPublic reads the public texts in a language other than English with the labels of their sources, and marks those
// that are annotated in the corpus as [Example.InCorpus]. Some have no label: ordinary text that is angry or sad may be
// rude, and nobody has said.
func ReadPublic(corpus, data fs.FS, language string) ([]Example, error) {
	annotations, err := readLetters(corpus, language+"/annotations.tsv")
	if err != nil {
		return nil, err
	}
	var out []Example
	for _, s := range languageSources {
		rows, err := s.read(data, language, annotations)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// languageOf returns the language whose model classifies texts of a tag of the data.
func languageOf(tag string) string {
	switch tag {
	case "hi-Latn":
		return "hi"
	case "arz", "arq":
		return "ar"
	case "nb", "nn":
		return "no"
	}
	return tag
}

// WordList returns the words of a language that are in the list of frequent words, folded as the tokenizer does, and
// the words of English that are not among them or that are borrowed: many times as frequent in English.
func WordList(data fs.FS, language string) (words, foreign map[string]bool, err error) {
	counts := map[string]*[2]float64{} // in English, and in the language
	var totals [2]float64
	err = lines(data, path.Join("languages", "wordlist_frequency.jsonl.gz"), func(r row) {
		var which int
		switch languageOf(r.Lang) {
		case "en":
			which = 0
		case language:
			which = 1
		default:
			return
		}
		totals[which] += r.Labels["count"]
		for _, w := range folded(r.Text) {
			n := counts[w]
			if n == nil {
				n = new([2]float64)
				counts[w] = n
			}
			n[which] += r.Labels["count"]
		}
	})
	words, foreign = map[string]bool{}, map[string]bool{}
	if errors.Is(err, fs.ErrNotExist) || err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return words, foreign, err
	}
	const borrowed = 4
	for w, n := range counts {
		english, own := n[0]/max(totals[0], 1), n[1]/max(totals[1], 1)
		switch {
		case english > borrowed*own && language != "en":
			foreign[w] = true
		case n[1] > 0:
			words[w] = true
		}
	}
	return words, foreign, nil
}
