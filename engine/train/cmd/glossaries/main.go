// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command glossaries writes the file by which themes find text in other languages than English.
//
//	go run ./engine/train/cmd/glossaries --out engine/themes/glossaries.bin es de fr pt it
//
// It joins the glossaries of the corpus: see docs/training.md.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

func main() {
	log.SetFlags(0)
	corpus := flag.String("corpus", "engine/train/corpus", "directory of the corpus")
	out := flag.String("out", "", "file to write")
	flag.Parse()
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
