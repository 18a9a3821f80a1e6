// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxLine is the size in bytes of the longest line of JSON that is accepted.
const maxLine = 16 << 20

// read calls use for each row of a file.
func read(name string, use func(row map[string]any) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if strings.HasSuffix(name, ".csv") {
		return readCSV(file, use)
	}
	return readLines(file, use)
}

// readCSV calls use for each row of a table whose first row names the columns.
func readCSV(from io.Reader, use func(row map[string]any) error) error {
	table := csv.NewReader(from)
	table.LazyQuotes = true
	head, err := table.Read()
	if err != nil {
		return err
	}
	for {
		cells, err := table.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		row := make(map[string]any, len(head))
		for i, column := range head {
			row[column] = cells[i]
		}
		if err := use(row); err != nil {
			return err
		}
	}
}

// readLines calls use for each line, which must be a JSON object.
func readLines(from io.Reader, use func(row map[string]any) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		var row map[string]any
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return fmt.Errorf("line %d is no JSON object", n) // the decoder's error may quote the text
		}
		if err := use(row); err != nil {
			return err
		}
	}
	return lines.Err()
}

// compared returns the scores of a line that moderation_compare logged.
func compared(row map[string]any) (theirs, ours map[string]any, ok bool) {
	theirs, one := row["theirs"].(map[string]any)
	ours, other := row["ours"].(map[string]any)
	return theirs, ours, one && other
}
