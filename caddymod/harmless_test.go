// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestHarmlessBodiesPass sends what programs and people send all day. None may be refused for its form or its size, and
// each reaches the app byte for byte.
func TestHarmlessBodiesPass(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, "moderate\n"+app.proxy()))
	words := []string{"Rome", "rye", "blue", "Ann", "Tuesday", "ok", "12", "A-3"}
	tiny := make([]string, 30_000)
	for i := range tiny {
		tiny[i] = fmt.Sprint(words[i%len(words)], i)
	}
	goods := []string{"bread", "rye loaf", "croissant", "coffee beans", "blue shirt", "laptop", "usb cable"}
	cities := []string{"Rome", "Oslo", "Bonn", "Lima", "Cairo", "Paris", "Berlin", "Tokyo"}
	states := []string{"open", "paid", "shipped", "returned", "new"}
	rows := make([][]any, 5000)
	for i := range rows {
		rows[i] = []any{i, goods[i*i%7], cities[i*5%8], "2026-01-02", states[i*3%5], nil, true}
	}
	cells := make(map[string]any, 5000)
	for i := range 5000 {
		cells[fmt.Sprintf("%c%d", 'A'+i%8, i/8)] = map[string]string{"v": cities[i%8], "t": "s"}
	}
	avatar := "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(photoNoise(900_000)))
	page := harmless(108_000)
	wiki := "== Bread ==\n" + strings.ReplaceAll(page, "bakery", "[[Bakery|bakery]]") + "\n{{cite web|url=https://a.example/1|title=Rye}}\n* '''one'''\n"
	table := strings.Repeat("17,Ann,Rome,\"The bread, again\",12.50\n", 40_000)
	fields := make(url.Values, 200)
	for i := range 200 {
		fields.Set(fmt.Sprint("question_", i), words[i%len(words)])
	}
	key := "-----BEGIN PRIVATE KEY-----\n" + base64.StdEncoding.EncodeToString([]byte(photoNoise(1200))) + "\n-----END PRIVATE KEY-----\n"
	login := func(name string) string { return "username=ann&" + name + "=YouStupidIdiot%211&remember=1" }
	parts := func(boundary, header, value string) string {
		return strings.ReplaceAll(field("title", fine)+part(value, header)+lastPart, "--xyz", "--"+boundary)
	}
	const python, java = "===============7330845974216740156==", "----=_Part_3_77.16"
	for _, test := range []struct {
		name   string
		header []string
		body   string
	}{
		{"30,000 short strings", asJSON, inJSON(t, tiny)},
		{"a spreadsheet of rows", asJSON, inJSON(t, map[string]any{"sheet": "Orders", "rows": rows})},
		{"a spreadsheet of cells", asJSON, inJSON(t, map[string]any{"cells": cells})},
		{"1.2 MB with an avatar", asJSON, inJSON(t, map[string]string{"name": "Ann", "bio": fine, "avatar": avatar})},
		{"a form with an avatar", asForm, url.Values{"name": {"Ann"}, "avatar": {avatar}, "bio": {fine}}.Encode()},
		{"a wiki page of 108 kB", asForm, url.Values{"wpTextbox1": {wiki}, "wpEditToken": {`0a1b+\`}}.Encode()},
		{"a table of 1.5 MB", typ("text/csv"), table},
		{"a table of 1.5 MB without a type", nil, table},
		{"identity, above 1 MiB", slices.Concat(asJSON, []string{"Content-Encoding: identity"}), inJSON(t, []string{harmless(1_500_000)})},
		{"200 fields", asForm, fields.Encode()},
		{"a log-in of Spring", asForm, login("j_password")},
		{"a log-in of Rails", asForm, login("user%5Bpassword%5D")},
		{"a log-in in German", asForm, login("Passwort")},
		{"a log-in of another app", asForm, login("signin_password")},
		{"a chunk of tus", typ("application/offset+octet-stream"), page},
		{"a picture by tus", typ("application/offset+octet-stream"), photoNoise(300_000)},
		{"a picture without a type", nil, "\x89PNG\r\n\x1a\n" + photoNoise(300_000)},
		{"a text without a type", nil, page},
		{"a text as bytes", typ("application/octet-stream"), page},
		{"a key without a type", nil, key},
		{"a key in JSON", asJSON, inJSON(t, map[string]string{"key": key})},
		{"a boundary of Python's email", typ(`multipart/related; boundary="` + python + `"`), parts(python, asImage, photoNoise(50_000))},
		{"a boundary of Java's, without quotes", typ("multipart/form-data; boundary=" + java), parts(java, fileField+"\r\n"+asImage, photoNoise(50_000))},
		{"a file of curl's with quotes", asParts, parts("xyz", `Content-Disposition: form-data; name="f"; filename="a\"b\".txt"`+"\r\nContent-Type: text/plain", page)},
		{"a query of GraphQL", asJSON, `{"query":"query Q($id: ID!) {\n  issue(id: $id) { title body author { login } }\n}","variables":{"id":"I_1"},"operationName":"Q"}`},
		{"a call of JSON-RPC", asJSON, `{"jsonrpc":"2.0","method":"child.kill","params":["0x1b4",true],"id":1}`},
		{"MessagePack without a type", nil, "\x82\xa4name\xa7Ann Lee\xa4blob\xc4\x08" + photoNoise(8)},
		{"a log", asText, strings.Repeat("2026-11-22T09:00:00Z ERROR [worker-3] child 17 killed by signal 9 (SIGKILL); aborting, retry=2\n", 300)},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := call(t, http.MethodPost, base, "", strings.NewReader(test.body), fieldsOf(test.header)...)
			if got.status != http.StatusOK {
				t.Fatalf("got %d %.400s, want 200", got.status, got.body)
			}
			if arrived := app.take(); len(arrived) != 1 || string(arrived[0].body) != test.body {
				t.Errorf("the app got %d requests", len(arrived))
			}
		})
	}
}

// fieldsOf divides the lines of a header into names and values.
func fieldsOf(header []string) (fields []string) {
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		fields = append(fields, name, value)
	}
	return fields
}

func inJSON(t *testing.T, value any) string {
	t.Helper()
	body, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestTextCountsOnce sees that what is read in several ways counts once towards max_text.
func TestTextCountsOnce(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, "moderate {\nmax_text 1000\n}\n"+app.proxy()))
	for _, line := range []string{"a = b + c and 50 % of d; ", "x=1, y=2+3%20apples; ", "[a](b) **c** & <d> = %41+", "Schöne Grüße = ja + nein % "} {
		for _, limit := range []struct{ length, status int }{{1000, passes}, {1001, tooLarge}} {
			text := []rune(strings.Repeat(line, 60))[:limit.length]
			text[0], text[limit.length-1] = 'a', 'z' // blanks at the ends do not always count
			for _, test := range []struct {
				name   string
				header []string
				body   string
			}{
				{"text", typ("text/plain; charset=utf-8"), string(text)},
				{"JSON", asJSON, inJSON(t, map[string]string{"comment": string(text)})},
				{"form", asForm, "comment=" + url.QueryEscape(string(text))},
				{"multipart", asParts, field("comment", string(text)) + lastPart},
			} {
				got := call(t, http.MethodPost, base, "", strings.NewReader(test.body), fieldsOf(test.header)...)
				if got.status != limit.status {
					t.Errorf("%s of %d characters like %q: got %d, want %d", test.name, limit.length, line, got.status, limit.status)
				}
			}
		}
	}
}

// TestSystemPromptsPass sees that a prompt that forbids slurs is not refused where only the user's words are read.
func TestSystemPromptsPass(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, "moderate {\nroles user\n}\n"+app.proxy()))
	for role, status := range map[string]int{"system": passes, "assistant": passes, "user": http.StatusUnprocessableEntity} {
		for name, body := range map[string]any{
			"a text": map[string]any{"messages": []any{
				map[string]string{"role": role, "content": "Never say: " + threat}, map[string]string{"role": "user", "content": fine}}},
			"parts": map[string]any{"messages": []any{
				map[string]any{"role": role, "content": []any{map[string]string{"type": "text", "text": "Never say: "}, map[string]string{"type": "text", "text": threat}}},
				map[string]string{"role": "user", "content": fine}}},
		} {
			got := call(t, http.MethodPost, base+"/chat", "", strings.NewReader(inJSON(t, body)), "Content-Type", "application/json")
			if got.status != status {
				t.Errorf("%s of %s: got %d, want %d: %.300s", name, role, got.status, status, got.body)
			}
		}
	}
}
