// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command train makes the weights file of the embedded classifier.
//
//	go run ./engine/train/cmd/train --data DIR --out engine/model/default.model --ship
//
// Without --ship, whole files of the corpus are held out, and --report says how the model does on them. With --model
// nothing is trained: the report is on that weights file.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/themes/lexicon"
	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

func run(args []string, log io.Writer) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	var data fs.FS
	if o.data != "" {
		data = os.DirFS(o.data)
	}
	if o.exam != "" {
		return examine(o.report, o.model, o.exam)
	}
	start := time.Now()
	examples, err := readExamples(o, data)
	if err != nil {
		return err
	}
	dataset := train.NewDataset(examples, o.ship)
	if o.model != "" && o.calibrate {
		file, err := os.ReadFile(o.model)
		if err != nil {
			return err
		}
		if share := o.linear.HarmShare; share != 0 {
			var changed bytes.Buffer
			if err := model.SetHarmShare(&changed, file, share); err != nil {
				return err
			}
			file = changed.Bytes()
		}
		return finish(o, file, dataset, data)
	}
	if o.model != "" {
		m, err := load(o.model)
		if err != nil {
			return err
		}
		return write(o.report, m, data, dataset)
	}
	file, err := fit(o, dataset, func(format string, values ...any) {
		fmt.Fprintf(log, "%s: %s\n", time.Since(start).Round(time.Second), fmt.Sprintf(format, values...))
	})
	if err != nil {
		return err
	}
	return finish(o, file, dataset, data)
}

// readExamples reads the texts of the language.
func readExamples(o *options, data fs.FS) ([]train.Example, error) {
	corpus := os.DirFS(o.corpus)
	if o.linear.Language == "" {
		return train.Read(corpus, data)
	}
	glossary, err := train.ReadGlossary(corpus, o.linear.Language)
	if err != nil {
		return nil, err
	}
	o.linear.Glossary = glossary
	return train.ReadLanguage(corpus, data, o.linear.Language, glossary, o.mix)
}

// options are the flags of the command.
type options struct {
	mix                      train.Mix
	data, corpus, english    string
	out, report, exam, model string
	calibrate, ship          bool
	cnnThreshold             float64
	linear                   train.Options
	cnn                      train.CNNOptions
	linearOnly               bool
	copies                   train.Copies
	sample                   int
	publicWeight             float64
	plainEvery, mining       int
	pretrainEvery            int
	mined                    float64
}

func parseOptions(args []string) (*options, error) {
	o := new(options)
	usual := train.DefaultPreparation()
	flags := flag.NewFlagSet("train", flag.ContinueOnError)
	flags.StringVar(&o.data, "data", "", "folder with the folders moderation, plain and languages; without it only the corpus is used")
	flags.StringVar(&o.corpus, "corpus", "engine/train/corpus", "folder of the corpus")
	flags.StringVar(&o.english, "english", "engine/themes/lexicon.bin",
		"lexicon of the theme screener, as a list of English words; without it only frequent words are known")
	flags.StringVar(&o.linear.Language, "language", "",
		"train for another language than English, by its BCP 47 tag: the corpus has a folder of that name")
	flags.Float64Var(&o.mix.English, "mixed", 0.1, "with --language, share of the English corpus that is added")
	flags.Float64Var(&o.mix.Translated, "translated", 0.4,
		"with --language, weight of the English corpus that the glossary turns into the language")
	flags.IntVar(&o.cnn.SubwordRows, "subword-rows", 0, "rows of the network for sub-words, a power of two")
	flags.IntVar(&o.cnn.Steps, "cnn-steps", 0, "steps on each side of zero that embeddings are rounded to, up to 127")
	flags.IntVar(&o.cnn.MinCount, "cnn-min-count", 0, "how often a word must occur to have an embedding of its own")
	flags.StringVar(&o.out, "out", "", "weights file to write")
	flags.StringVar(&o.report, "report", "", "file to write the report to, - for standard output")
	flags.StringVar(&o.exam, "exam", "", "with --model, file of an examination: report on that and on nothing else")
	flags.StringVar(&o.model, "model", "", "weights file to report on, instead of training one")
	flags.BoolVar(&o.calibrate, "calibrate", false, "with --model, calibrate its weights anew and write them to --out")
	flags.Float64Var(&o.cnnThreshold, "cnn-threshold", 0.09,
		"probability of a category, by the linear model alone, above which the network classifies a text, too")
	flags.BoolVar(&o.ship, "ship", false, "train on whole files that are otherwise held out")
	flags.Float64Var(&o.linear.HarmShare, "harm-share", 0,
		"share of harmful texts, from 0.0001 to 0.9999, in the traffic that the calibration assumes")
	flags.IntVar(&o.linear.Epochs, "epochs", 0, "passes over the data")
	flags.Float64Var(&o.linear.Rate, "rate", 0, "learning rate")
	flags.Float64Var(&o.linear.SubwordRate, "subword-rate", 0, "learning rate of sub-words, relative")
	flags.Float64Var(&o.linear.InitialAccumulator, "initial-accumulator", 0,
		"initial accumulator of AdaGrad: the larger, the less rare features weigh")
	flags.Float64Var(&o.linear.Decay, "decay", 0, "weight decay")
	flags.IntVar(&o.linear.Rows, "rows", 0, "rows to keep")
	flags.IntVar(&o.linear.Buckets, "buckets", 0, "size of the table, a power of two")
	flags.IntVar(&o.linear.MinCount, "min-count", 0, "how often a feature must occur")
	flags.IntVar(&o.cnn.Epochs, "cnn-epochs", 0, "passes of the network over the corpus")
	flags.Float64Var(&o.cnn.PublicShare, "cnn-public", 0, "share of public texts in each pass of the network")
	flags.IntVar(&o.pretrainEvery, "pretrain-one-of", 2, "pretrain the network on one in so many ordinary texts, 0 for none")
	flags.BoolVar(&o.linearOnly, "linear-only", false, "train no network")
	flags.Float64Var(&o.copies.Disguise, "disguise", usual.Copies.Disguise,
		"share of the corpus that is added in disguise")
	flags.Float64Var(&o.copies.Surround, "surround", usual.Copies.Surround,
		"share of the corpus that is added surrounded by ordinary text")
	flags.Float64Var(&o.copies.Swap, "swap", usual.Copies.Swap,
		"share of the corpus that is added with another group of people in it")
	flags.IntVar(&o.sample, "sample", 1, "use one in so many public texts, to explore faster")
	flags.IntVar(&o.plainEvery, "plain-one-of", usual.PlainEvery, "use one in so many ordinary texts without mining")
	flags.IntVar(&o.mining, "mining-rounds", 1, "rounds of mining hard negatives from the other ordinary texts")
	flags.Float64Var(&o.mined, "mined", 0.04, "share of the ordinary texts that is mined, for each category")
	flags.Float64Var(&o.publicWeight, "public-weight", usual.PublicWeight,
		"factor on the weights of the category labels of public texts")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return o, o.check()
}

// check refuses flags that would end a training after half an hour, or that would be ignored.
func (o *options) check() error {
	switch {
	case o.plainEvery < 1 || o.pretrainEvery < 0:
		return errors.New("--plain-one-of wants a number from 1, and --pretrain-one-of one from 0")
	case !(o.mined >= 0 && o.mined <= 1) || o.mining < 0:
		return errors.New("--mined wants a share from 0 to 1, and --mining-rounds a number from 0")
	case o.linear.HarmShare != 0 && !(o.linear.HarmShare >= 0.0001 && o.linear.HarmShare <= 0.9999):
		return errors.New("--harm-share wants a share from 0.0001 to 0.9999")
	case !(o.cnnThreshold > 0 && o.cnnThreshold < 1):
		return errors.New("--cnn-threshold wants a probability above 0 and below 1")
	case o.model == "" && (o.calibrate || o.exam != ""):
		return errors.New("--calibrate and --exam need the weights file of --model")
	}
	return nil
}

// miningEpochs is the number of passes of the linear models that only mine.
const miningEpochs = 2

// fit trains on the training split, and returns a weights file without calibration.
func fit(o *options, dataset *train.Dataset, log func(format string, values ...any)) ([]byte, error) {
	seed := o.linear.Seed
	texts, plain := train.Prepare(train.Sample(dataset.Splits[train.Training], o.sample), train.Preparation{
		PublicWeight: o.publicWeight, PlainEvery: o.plainEvery, Copies: o.copies, Seed: seed,
		Language: o.linear.Language,
	})
	log("%d texts for training and %d to mine, %d for calibration, %d for test", len(texts), len(plain),
		len(dataset.Splits[train.Calibration]), len(dataset.Splits[train.Test]))
	if language := o.linear.Language; language != "" {
		words, foreign, err := train.WordList(os.DirFS(o.data), language)
		if err != nil {
			return nil, err
		}
		o.linear.Foreign = func(folded []byte) bool { return foreign[string(folded)] }
		o.linear.English = func(folded []byte) bool { return words[string(folded)] }
	} else if o.english != "" {
		file, err := os.ReadFile(o.english)
		if err != nil {
			return nil, err
		}
		words, err := lexicon.Open(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.english, err)
		}
		hasSense := func(t lexicon.Term) bool { return words.SenseCount(t) > 0 }
		o.linear.English = func(folded []byte) bool {
			return slices.ContainsFunc(words.Bases(folded, nil), hasSense)
		}
	}
	for round := range o.mining {
		first := o.linear
		first.Epochs = miningEpochs
		miner := train.Fit(texts, first)
		hard, err := train.Mine(miner, plain, o.mined)
		if err != nil {
			return nil, err
		}
		o.linear.Like = miner
		if round > 0 {
			texts = slices.DeleteFunc(texts, func(e train.Example) bool { return e.Hard })
		}
		texts = append(texts, hard...)
		log("round %d of mining: %d hard negatives", round+1, len(hard))
	}
	fitted := train.Fit(texts, o.linear)
	fitted.Header.TrainingDigest = dataset.Digest
	log("linear model of %d rows", len(fitted.Weights.Rows))
	if !o.linearOnly {
		for i := 0; i < len(plain) && o.pretrainEvery > 0; i += o.pretrainEvery {
			o.cnn.Plain = append(o.cnn.Plain, plain[i])
		}
		fitted.Weights.CNN = train.FitCNN(texts, fitted, o.cnn)
		log("network")
	}
	return fitted.File()
}

// finish calibrates weights, writes them to a file if it has a name, and reports.
func finish(o *options, file []byte, dataset *train.Dataset, data fs.FS) error {
	file, err := train.Calibrate(file, dataset.Splits[train.Calibration], o.cnnThreshold, o.linear.Seed)
	if err != nil {
		return err
	}
	m, err := model.Load(bytes.NewReader(file))
	if err != nil {
		return err
	}
	if o.out != "" {
		if err := os.WriteFile(o.out, file, 0o644); err != nil {
			return err
		}
	}
	return write(o.report, m, data, dataset)
}

// load reads a weights file.
func load(name string) (*model.Model, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	m, err := model.Load(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// examine reports on an examination; on that of a language beside English also on what the folder mentions beside it
// has of the language, and on disguised words.
func examine(report, weights, exam string) error {
	m, err := load(weights)
	if err != nil {
		return err
	}
	folder, name := filepath.Split(exam)
	read := train.ReadTexts
	if strings.HasSuffix(name, ".txt") {
		read = train.ReadSheet
	}
	rows, err := read(os.DirFS(cmp.Or(folder, ".")), name)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	train.Examine(&text, m, rows)
	if strings.HasSuffix(name, ".txt") {
		mentions, err := train.ReadMentions(os.DirFS(cmp.Or(folder, ".")), "mentions/"+name)
		if err == nil {
			train.Mentions(&text, m, mentions)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		train.Evasions(&text, m, rows)
	}
	return save(report, text.Bytes())
}

// write writes the report on a model to a file, to standard output for -, and nowhere without a name.
func write(name string, m *model.Model, data fs.FS, dataset *train.Dataset) error {
	if name == "" {
		return nil
	}
	var text bytes.Buffer
	train.Evaluate(&text, m, dataset.Splits[train.Test])
	if data != nil {
		// Like any public source, those with fractions may be missing.
		if err := train.Agreement(&text, m, data, dataset); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return save(name, text.Bytes())
}

// save writes a report to a file, or to standard output for - and without a name.
func save(name string, text []byte) error {
	if name == "-" || name == "" {
		_, err := os.Stdout.Write(text)
		return err
	}
	return os.WriteFile(name, text, 0o644)
}
