// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// corpus is where the texts are, seen from the root of the repository. Half of them are harmful and many others look
// like harm, so they cost the classifier more than everyday traffic does.
const corpus = "engine/train/corpus/*.jsonl"

// contents returns n texts of exactly the given number of characters, put together from the files that match a
// pattern in an order that is the same each time. They differ, so that no cache makes the second one cheaper.
func contents(pattern string, n, characters int) ([]string, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no texts at %s: run this in the root of the repository", pattern)
	}
	var pieces []string
	for _, name := range files {
		found, err := texts(name)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, found...)
	}
	random := rand.New(rand.NewPCG(1, uint64(characters)))
	made := make([]string, n)
	for i := range made {
		var b strings.Builder
		for left := characters; left > 0; {
			piece := []rune(pieces[random.IntN(len(pieces))] + " ")
			piece = piece[:min(len(piece), left)]
			b.WriteString(string(piece))
			left -= len(piece)
		}
		made[i] = b.String()
	}
	return made, nil
}

// texts reads the member "text" of every line.
func texts(name string) ([]string, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if row.Text != "" && utf8.ValidString(row.Text) {
			all = append(all, row.Text)
		}
	}
	return all, lines.Err()
}

// bodies are request bodies of moderation_text and of the baseline.
func bodies(pattern string, n, characters int) ([][]byte, error) {
	all, err := contents(pattern, n, characters)
	if err != nil {
		return nil, err
	}
	made := make([][]byte, n)
	for i, content := range all {
		if made[i], err = json.Marshal(map[string]string{"content": content}); err != nil {
			return nil, err
		}
	}
	return made, nil
}
