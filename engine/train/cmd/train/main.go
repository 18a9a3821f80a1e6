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
	examples, err := train.Read(os.DirFS(o.corpus), data)
	if err != nil {
		return err
	}
	dataset := train.NewDataset(examples, o.ship)
	if o.model != "" && o.calibrate {
		file, err := os.ReadFile(o.model)
		if err != nil {
			return err
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

// options are the flags of the command.
type options struct {
	data, corpus, english    string
	out, report, exam, model string
	calibrate, ship          bool
	cnnThreshold             float64
	linear                   train.Options
	cnn                      train.CNNOptions
	linearOnly               bool
	disguise, surround, swap float64
	sample                   int
	publicWeight             float64
}

func parseOptions(args []string) (*options, error) {
	o := new(options)
	flags := flag.NewFlagSet("train", flag.ContinueOnError)
	flags.StringVar(&o.data, "data", "", "folder with the folder moderation; without it only the corpus is used")
	flags.StringVar(&o.corpus, "corpus", "engine/train/corpus", "folder of the corpus")
	flags.StringVar(&o.english, "english", "engine/themes/lexicon.bin",
		"lexicon of the theme screener, as a list of English words; without it only frequent words are known")
	flags.StringVar(&o.out, "out", "", "weights file to write")
	flags.StringVar(&o.report, "report", "", "file to write the report to, - for standard output")
	flags.StringVar(&o.exam, "exam", "", "with --model, file of an examination: report on that and on nothing else")
	flags.StringVar(&o.model, "model", "", "weights file to report on, instead of training one")
	flags.BoolVar(&o.calibrate, "calibrate", false, "with --model, calibrate its weights anew and write them to --out")
	flags.Float64Var(&o.cnnThreshold, "cnn-threshold", 0.2,
		"probability of a category, by the linear model alone, above which the network classifies a text, too")
	flags.BoolVar(&o.ship, "ship", false, "train on whole files that are otherwise held out")
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
	flags.BoolVar(&o.linearOnly, "linear-only", false, "train no network")
	flags.Float64Var(&o.disguise, "disguise", 0.3, "share of the corpus that is added in disguise")
	flags.Float64Var(&o.surround, "surround", 0.2, "share of the corpus that is added surrounded by ordinary text")
	flags.Float64Var(&o.swap, "swap", 0.3, "share of the corpus that is added with another group of people in it")
	flags.IntVar(&o.sample, "sample", 1, "use one in so many public texts, to explore faster")
	flags.Float64Var(&o.publicWeight, "public-weight", 0.3, "factor on the weights of the category labels of public texts")
	return o, flags.Parse(args)
}

// fit trains on the training split, and returns a weights file without calibration.
func fit(o *options, dataset *train.Dataset, log func(format string, values ...any)) ([]byte, error) {
	seed := o.linear.Seed
	texts := train.Sample(dataset.Splits[train.Training], o.sample)
	train.Reweigh(texts, float32(o.publicWeight))
	texts = slices.Concat(texts, train.Augment(texts, o.disguise, seed), train.Surround(texts, o.surround, seed),
		train.Swap(texts, o.swap, seed), train.Neutral())
	log("%d texts for training, %d for calibration, %d for test", len(texts),
		len(dataset.Splits[train.Calibration]), len(dataset.Splits[train.Test]))
	if o.english != "" {
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
	fitted := train.Fit(texts, o.linear)
	fitted.Header.TrainingDigest = dataset.Digest
	log("linear model of %d rows", len(fitted.Weights.Rows))
	if !o.linearOnly {
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

// examine reports on an examination.
func examine(report, weights, exam string) error {
	m, err := load(weights)
	if err != nil {
		return err
	}
	folder, name := filepath.Split(exam)
	rows, err := train.ReadTexts(os.DirFS(cmp.Or(folder, ".")), name)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	train.Examine(&text, m, rows)
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
