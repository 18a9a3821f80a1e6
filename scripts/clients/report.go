// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// report prints the result of each check as one line, and counts the results:
//
//	ok: curl: a gzip body arrives as sent
//	FAIL: curl: a vile gzip body is refused: status 200, want 422
//	skip: curl: HTTP/3: this curl cannot
type report struct {
	out    io.Writer
	client string // whose checks are being made; empty for a program that prints its own

	passed, failed, skipped int
}

// check runs one check.
func (r *report) check(what string, do func() error) {
	if err := do(); err != nil {
		r.fail(what, err)
		return
	}
	r.ok(what)
}

func (r *report) ok(what string) {
	r.passed++
	fmt.Fprintf(r.out, "ok: %s\n", r.named(what))
}

func (r *report) fail(what string, err error) {
	r.failed++
	fmt.Fprintf(r.out, "FAIL: %s: %s\n", r.named(what), oneLine(err.Error()))
}

func (r *report) skip(what, why string) {
	r.skipped++
	fmt.Fprintf(r.out, "skip: %s: %s\n", r.named(what), oneLine(why))
}

// named returns a check's name with that of its client.
func (r *report) named(what string) string {
	if r.client == "" {
		return what
	}
	return r.client + ": " + what
}

// oneLine turns a text into one readable line of limited length.
func oneLine(s string) string {
	const limit = 600
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "..."
	}
	return s
}
