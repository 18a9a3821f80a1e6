// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command train makes the weights file that the judge embeds.
//
//	go run ./engine/train/cmd/train --data DIR --out engine/model/default.model --ship
//
// Without --ship whole files of written text are held back, and --report says what the model does on them. With --model
// nothing is trained: the report is that of the weights file.
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
	flags := flag.NewFlagSet("train", flag.ContinueOnError)
	data := flags.String("data", "", "folder with the folder moderation; without it only the corpus is used")
	corpus := flags.String("corpus", "engine/train/corpus", "folder with the project's own texts")
	out := flags.String("out", "", "weights file to write")
	report := flags.String("report", "", "file to write the report to, - for standard output")
	exam := flags.String("exam", "", "with --model, file of an examination: the report is on that and on nothing else")
	judge := flags.String("model", "", "weights file to report on, instead of training one")
	again := flags.Bool("calibrate", false, "with --model, calibrate the weights of the file anew and write them to the file --out")
	gate := flags.Float64("gate", 0.2, "probability of a category, by the linear model alone, above which a text is read again")
	ship := flags.Bool("ship", false, "learn from whole files that are otherwise held back")
	var opt train.Options
	flags.IntVar(&opt.Epochs, "epochs", 0, "passes over the data")
	flags.Float64Var(&opt.Rate, "rate", 0, "learning rate")
	flags.Float64Var(&opt.PartRate, "part-rate", 0, "learning rate of the parts of words, relative")
	flags.Float64Var(&opt.InitialAccumulator, "caution", 0, "how little rare features are believed")
	flags.Float64Var(&opt.Decay, "decay", 0, "weight decay")
	flags.IntVar(&opt.Rows, "rows", 0, "rows to keep")
	flags.IntVar(&opt.Buckets, "buckets", 0, "size of the table, a power of two")
	flags.IntVar(&opt.MinCount, "min-count", 0, "how often a feature must be met")
	var second train.CNNOptions
	flags.IntVar(&second.Epochs, "reader-epochs", 0, "passes of the reader over the written texts")
	flags.Float64Var(&second.Scraped, "reader-scraped", 0, "part of the scraped texts that each pass of the reader reads")
	alone := flags.Bool("alone", false, "train no reader")
	english := flags.String("english", "engine/themes/lexicon.bin", "lexicon of the theme judge, for a list of English words; without it only frequent words are known")
	share := flags.Float64("disguise", 0.3, "share of the written texts that is added in disguise")
	embed := flags.Float64("embed", 0.2, "share of the written texts that is added inside ordinary text")
	swap := flags.Float64("swap", 0.3, "share of the written texts that is added with another group of people in it")
	sample := flags.Int("sample", 1, "use one of so many scraped rows, to explore faster")
	scraped := flags.Float64("scraped", 0.3, "what the category labels of scraped rows count, against the table of sources")
	if err := flags.Parse(args); err != nil {
		return err
	}

	var files fs.FS
	if *data != "" {
		files = os.DirFS(*data)
	}
	if *exam != "" {
		return examine(*report, *judge, *exam)
	}
	start := time.Now()
	examples, err := train.Read(os.DirFS(*corpus), files)
	if err != nil {
		return err
	}
	pool := train.NewPool(examples, *ship)
	if *judge != "" && *again {
		file, err := os.ReadFile(*judge)
		if err != nil {
			return err
		}
		return finish(file, pool, files, *out, *report, *gate, opt.Seed)
	}
	if *judge != "" {
		m, err := load(*judge)
		if err != nil {
			return err
		}
		return write(*report, m, files, pool)
	}
	learn := pool.Splits[train.Training]
	learn = train.Sample(learn, *sample)
	train.Reweigh(learn, float32(*scraped))
	learn = slices.Concat(learn, train.Augment(learn, *share, opt.Seed), train.Embed(learn, *embed, opt.Seed), train.Swap(learn, *swap, opt.Seed), train.Neutral())
	fmt.Fprintf(log, "%s: %d texts to learn from, %d to calibrate on, %d to judge\n", time.Since(start).Round(time.Second), len(learn),
		len(pool.Splits[train.Calibration]), len(pool.Splits[train.Test]))

	if *english != "" {
		file, err := os.ReadFile(*english)
		if err != nil {
			return err
		}
		words, err := lexicon.Open(file)
		if err != nil {
			return fmt.Errorf("%s: %w", *english, err)
		}
		opt.English = func(folded []byte) bool {
			return slices.ContainsFunc(words.Bases(folded, nil), func(t lexicon.Term) bool { return words.SenseCount(t) > 0 })
		}
	}
	fitted := train.Fit(learn, opt)
	fitted.Header.TrainingDigest = pool.Digest
	fmt.Fprintf(log, "%s: %d rows\n", time.Since(start).Round(time.Second), len(fitted.Weights.Rows))
	if !*alone {
		fitted.Weights.CNN = train.FitCNN(learn, fitted, second)
		fmt.Fprintf(log, "%s: reader\n", time.Since(start).Round(time.Second))
	}
	file, err := fitted.File()
	if err != nil {
		return err
	}
	return finish(file, pool, files, *out, *report, *gate, opt.Seed)
}

// finish calibrates weights, writes them to a file when it has a name, and reports.
func finish(file []byte, pool *train.Pool, data fs.FS, out, report string, gate float64, seed uint64) error {
	file, err := train.Calibrate(file, pool.Splits[train.Calibration], gate, seed)
	if err != nil {
		return err
	}
	m, err := model.Load(bytes.NewReader(file))
	if err != nil {
		return err
	}
	if out != "" {
		if err := os.WriteFile(out, file, 0o644); err != nil {
			return err
		}
	}
	return write(report, m, data, pool)
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
func write(name string, m *model.Model, data fs.FS, pool *train.Pool) error {
	if name == "" {
		return nil
	}
	var text bytes.Buffer
	train.Evaluate(&text, m, pool.Splits[train.Test])
	if data != nil {
		// Like any source, those with fractions may be missing.
		if err := train.Agreement(&text, m, data, pool); err != nil && !errors.Is(err, fs.ErrNotExist) {
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
