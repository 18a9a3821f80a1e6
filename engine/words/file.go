// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package words

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// MaxFileSize is the maximum size in bytes of the input of [Read].
const MaxFileSize = 16 << 20

// Read makes a list of the expressions in UTF-8 text, one on each line, with or without a byte order mark. It skips
// empty lines and comments: a # at the beginning of a line or after white space, and what follows it. The error names
// the line of the first expression that is longer than [MaxCharacters], not UTF-8 or without a word, or of the one
// that exceeds [MaxExpressions].
func Read(r io.Reader) (*List, error) {
	content, err := io.ReadAll(io.LimitReader(r, MaxFileSize+1))
	if err != nil {
		return nil, err
	}
	if len(content) > MaxFileSize {
		return nil, fmt.Errorf("the list is larger than %d bytes", MaxFileSize)
	}
	l := newList()
	line, count := 0, 0
	for one := range strings.Lines(string(bytes.TrimPrefix(content, []byte("\uFEFF")))) {
		line++
		expression := strings.TrimSpace(withoutComment(one))
		if expression == "" {
			continue
		}
		if count++; count > MaxExpressions {
			return nil, fmt.Errorf("line %d: more than %d expressions", line, MaxExpressions)
		}
		// A clone, so that the list does not keep the comments in memory.
		if err := l.add(strings.Clone(expression)); err != nil {
			return nil, fmt.Errorf("line %d: the expression %w", line, err)
		}
	}
	return l, nil
}

// withoutComment returns a line up to its comment.
func withoutComment(line string) string {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			return line[:i]
		}
	}
	return line
}
