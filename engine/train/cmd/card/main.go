// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command card brings the generated sections of the model card up to the shipped weights, the data that they were
// learned from and the report of a development run:
//
//	go run ./engine/train/cmd/card --data DIR --development REPORT
//
// A section stands between the lines <!-- begin generated: NAME --> and <!-- end generated: NAME -->. Everything else
// in the document is written by hand and stays. A marker that is missing, doubled or unknown is an error, and nothing
// is written then.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "card:", err)
		os.Exit(1)
	}
}

func run(args []string, log io.Writer) error {
	flags := flag.NewFlagSet("card", flag.ContinueOnError)
	flags.SetOutput(log)
	data := flags.String("data", "", "folder with the folders moderation, plain and languages, as for the training")
	corpus := flags.String("corpus", "engine/train/corpus", "folder of the corpus")
	weights := flags.String("model", "engine/model/default.model", "shipped weights file")
	golden := flags.String("golden", "engine/model/testdata/golden.json", "golden scores of the shipped weights")
	report := flags.String("development", "", "report of a development run: cmd/train --report without --ship")
	card := flags.String("card", "docs/model-card.md", "document to rewrite")
	preparation := train.DefaultPreparation()
	copies := &preparation.Copies
	flags.Float64Var(&copies.Disguise, "disguise", copies.Disguise, "as for the training")
	flags.Float64Var(&copies.Surround, "surround", copies.Surround, "as for the training")
	flags.Float64Var(&copies.Swap, "swap", copies.Swap, "as for the training")
	flags.IntVar(&preparation.PlainEvery, "plain-one-of", preparation.PlainEvery, "as for the training")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *data == "" || *report == "" {
		return fmt.Errorf("--data and --development are needed: a card without them would tell less than it seems to")
	}
	if preparation.PlainEvery < 1 {
		return fmt.Errorf("--plain-one-of wants a number from 1, as for the training")
	}

	document, err := os.ReadFile(*card)
	if err != nil {
		return err
	}
	if err := check(document); err != nil {
		return fmt.Errorf("%s: %w", *card, err)
	}
	shipped, err := readWeights(*weights, *golden)
	if err != nil {
		return err
	}
	development, err := os.ReadFile(*report)
	if err != nil {
		return err
	}
	recall, figures, err := cutRecall(string(development))
	if err != nil {
		return fmt.Errorf("%s: %w", *report, err)
	}
	sheet, err := train.Survey(os.DirFS(*corpus), os.DirFS(*data), preparation)
	if err != nil {
		return err
	}
	if why := shipped.differs(sheet); why != "" {
		fmt.Fprintln(log, "card: note:", why)
	}
	origins, err := readOrigins()
	if err != nil {
		return err
	}
	var sources, plain bytes.Buffer
	if err := writeSources(&sources, sheet, origins); err != nil {
		return err
	}
	if origins, err = readPlainOrigins(); err != nil {
		return err
	}
	if err := writePlain(&plain, sheet, origins); err != nil {
		return err
	}
	out, err := rewrite(document, map[string]string{
		weightsSection:  shipped.section(sheet),
		recallSection:   recall,
		priorsSection:   shipped.priors(),
		readersSection:  readers(sheet.Readings),
		textsSection:    shipped.texts(sheet),
		sourcesSection:  sources.String(),
		plainSection:    plain.String(),
		coverageSection: coverage(sheet),
		figuresSection:  figures,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", *card, err)
	}
	return os.WriteFile(*card, out, 0o644)
}
