// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package words

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// MaxFileSize is the size in bytes of what [Read] reads.
const MaxFileSize = 16 << 20

// Read makes a list of the expressions in a text in UTF-8, with or without a byte order mark, one on each line. Empty lines
// count for nothing, nor does what follows a # at the beginning of a line or after white space. The error names the line of
// the first expression that is too long, not UTF-8 or without a word.
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
		// The list must not keep the comments in memory.
		if err := l.add(strings.Clone(expression)); err != nil {
			return nil, fmt.Errorf("line %d: the expression %w", line, err)
		}
	}
	return l, nil
}

// withoutComment returns what stands before the comment of a line.
func withoutComment(line string) string {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			return line[:i]
		}
	}
	return line
}
