// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command glossaries writes the file by which themes find text in other languages than English.
//
//	go run ./engine/train/cmd/glossaries --out engine/themes/glossaries.bin es de fr pt it
//
// It joins the glossaries of the corpus: see docs/training.md. With --measure it says how well themes find text in
// these languages. A directory holds files LANGUAGE.tsv, with a pair on each line: a theme, the same theme in English,
// 1 for a hit or 0, and a text.
//
//	go run ./engine/train/cmd/glossaries --measure engine/train/exam/themes
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

func main() {
	log.SetFlags(0)
	corpus := flag.String("corpus", "engine/train/corpus", "directory of the corpus")
	out := flag.String("out", "", "file to write")
	pairs := flag.String("measure", "", "directory of pairs of theme and text to measure on")
	flag.Parse()
	if *pairs != "" {
		if err := measure(os.DirFS(*pairs)); err != nil {
			log.Fatal(err)
		}
		return
	}
	if *out == "" || flag.NArg() == 0 {
		log.Fatal("--out and the tags of languages are needed")
	}
	if err := run(os.DirFS(*corpus), *out, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

// run writes, for each language, a line with an equals sign and the tag, and then the lines of its glossary that have
// an English word.
func run(corpus fs.FS, out string, tags []string) error {
	var all bytes.Buffer
	for _, tag := range tags {
		names, err := fs.Glob(corpus, filepath.ToSlash(filepath.Join(tag, "gloss", "g*.txt")))
		if err != nil || len(names) == 0 {
			return fmt.Errorf("no glossary of %s", tag)
		}
		fmt.Fprintf(&all, "=%s\n", tag)
		for _, name := range names {
			file, err := fs.ReadFile(corpus, name)
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(file)) {
				if f := strings.Fields(line); len(f) == 2 && f[1] != "-" && f[1] != "=" && !strings.HasPrefix(f[0], "=") {
					fmt.Fprintf(&all, "%s %s\n", strings.ToLower(f[0]), strings.ToLower(f[1]))
				}
			}
		}
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	return os.WriteFile(out, enc.EncodeAll(all.Bytes(), nil), 0o644)
}

// measure prints, for each language, how many hits and how many other pairs are flagged.
func measure(pairs fs.FS) error {
	names, err := fs.Glob(pairs, "*.tsv")
	if err != nil {
		return err
	}
	e, err := engine.New(engine.Options{})
	if err != nil {
		return err
	}
	fmt.Println("| language | pairs | recall, theme in the language | false hits | recall, theme in English | false hits |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, name := range names {
		file, err := fs.ReadFile(pairs, name)
		if err != nil {
			return err
		}
		var total, flagged [2][2]int // by the theme's language and whether it is a hit
		for line := range strings.Lines(string(file)) {
			fields := strings.Split(strings.TrimSpace(line), "\t")
			if len(fields) != 4 {
				return fmt.Errorf("%s: %d fields in a line, want 4", name, len(fields))
			}
			hit := 0
			if fields[2] == "1" {
				hit = 1
			}
			for i := range 2 {
				r, err := e.Moderate(context.Background(), engine.Request{Content: fields[3], Themes: fields[i : i+1]})
				if err != nil {
					return err
				}
				total[i][hit]++
				if r.Themes[0].Flagged {
					flagged[i][hit]++
				}
			}
		}
		share := func(i, hit int) float64 { return float64(flagged[i][hit]) / float64(total[i][hit]) }
		fmt.Printf("| `%s` | %d | %.2f | %.2f | %.2f | %.2f |\n", strings.TrimSuffix(name, ".tsv"), total[0][0]+total[0][1],
			share(0, 1), share(0, 0), share(1, 1), share(1, 0))
	}
	return nil
}
