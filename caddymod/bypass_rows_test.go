// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"testing"
)

// TestRowsOfParsers sees that the rows that scripts/parsers tries are those of this table. Rows are left out that are
// long, which says nothing about parsers, and those that end their connection.
func TestRowsOfParsers(t *testing.T) {
	const file, longest = "../scripts/parsers/testdata/rows.jsonl", 32 << 10
	// The sentences of scripts/parsers.
	const vile, fine = "I will find you and kill you, you worthless piece of shit.", "The bakery on the corner has wonderful rye bread, so good."
	harmless := attempts(fine)
	var rows bytes.Buffer
	encoder := json.NewEncoder(&rows)
	encoder.SetEscapeHTML(false)
	for i, group := range attempts(vile) {
		for j, a := range group.attempts {
			if len(a.body) > longest || a.ends || a.body == "" {
				continue
			}
			method := a.method
			if method == "" {
				method = http.MethodPost
			}
			err := encoder.Encode(struct {
				Name, Method string
				Header       []string
				Vile, Fine   []byte
			}{group.title + ": " + a.name, method, a.header, []byte(a.body), []byte(harmless[i].attempts[j].body)})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	have, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	if bytes.Equal(have, rows.Bytes()) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the table says; write it anew with: go test ./caddymod -run TestRowsOfParsers -update", file)
	}
	if err := os.WriteFile(file, rows.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
