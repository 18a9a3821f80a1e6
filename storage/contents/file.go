// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
)

// A file of contents is JSON Lines: a header, an item a line, and an end:
//
//	{"caddy-moderation contents":1}
//	{"seeded":true}
//	{"owner":{"id":"acme","account":{...},"keys":[...],"days":[{"at":20415,"requests":7}],...}}
//	{"forget":{"owner":"acme"}}
//	{"feedback":{...}}
//	{"document":{"collection":"review","key":"...","value":"<base64>"}}
//	{"end":{"items":5,"sha256":"..."}}
//
// The sum is that of everything before the line of the end.
const (
	// Magic begins a file of contents.
	Magic = `{"caddy-moderation contents":`
	// version is that of the format.
	version = 1
	// endMark begins the last line.
	endMark = `{"end":`
	// maxLine is the length of the longest line that is read.
	maxLine = 16 << 20
)

// ErrNotWhole says that a file is none of contents, or not a whole one.
var ErrNotWhole = errors.New("not a whole backup")

// Writer writes a file of contents.
type Writer struct {
	to    io.Writer
	sum   hash.Hash
	out   *bufio.Writer
	items int64
}

// NewWriter begins a file. It is whole after [Writer.Close].
func NewWriter(to io.Writer) *Writer {
	w := &Writer{to: to, sum: sha256.New()}
	w.out = bufio.NewWriterSize(io.MultiWriter(to, w.sum), 64<<10)
	// An error here is returned again at the end.
	fmt.Fprintf(w.out, "%s%d}\n", Magic, version)
	return w
}

// Write writes an item.
func (w *Writer) Write(item Item) error {
	encoded, err := encodeItem(item)
	if err != nil {
		return err
	}
	w.items++
	_, err = w.out.Write(encoded)
	return err
}

// Close writes the end of the file. It does not close the underlying writer.
func (w *Writer) Close() error {
	if err := w.out.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w.to, endMark+`{"items":%d,"sha256":"%x"}}`+"\n", w.items, w.sum.Sum(nil))
	return err
}

// end is the last line.
type end struct {
	Items  int64  `json:"items"`
	SHA256 string `json:"sha256"`
}

// Read yields the items of a file. Whether it is whole is known at the end: an error wraps [ErrNotWhole], or is that of
// r.
func Read(r io.Reader) Items {
	return func(yield func(Item, error) bool) {
		in := lines{from: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
		if err := in.header(); err != nil {
			yield(Item{}, err)
			return
		}
		for items := int64(0); ; items++ {
			line, err := in.next()
			if err != nil {
				yield(Item{}, err)
				return
			}
			item, last, err := decodeLine(line)
			if err != nil {
				yield(Item{}, fmt.Errorf("%w: it is damaged", ErrNotWhole))
				return
			}
			if last != nil {
				if err := in.end(); err != nil {
					yield(Item{}, err)
				} else if last.Items != items || last.SHA256 != hex.EncodeToString(in.sum.Sum(nil)) {
					yield(Item{}, fmt.Errorf("%w: its sum does not fit what it holds", ErrNotWhole))
				}
				return
			}
			if !yield(item, nil) {
				return
			}
		}
	}
}

// lines reads lines and sums them up.
type lines struct {
	from *bufio.Reader
	sum  hash.Hash
	long []byte
}

// next returns the next line, which is valid until the next call.
func (l *lines) next() ([]byte, error) {
	line, err := l.from.ReadSlice('\n')
	for l.long = l.long[:0]; errors.Is(err, bufio.ErrBufferFull); line, err = l.from.ReadSlice('\n') {
		if l.long = append(l.long, line...); len(l.long) > maxLine {
			return nil, fmt.Errorf("%w: it is damaged", ErrNotWhole)
		}
	}
	if len(l.long) > 0 {
		l.long = append(l.long, line...)
		line = l.long
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: it ends too early", ErrNotWhole)
	}
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(line, []byte(endMark)) {
		l.sum.Write(line)
	}
	return line, nil
}

// header reads the first line.
func (l *lines) header() error {
	line, err := l.next()
	if err != nil && !errors.Is(err, ErrNotWhole) {
		return err
	}
	found := 0
	if err != nil || !bytes.HasPrefix(line, []byte(Magic)) {
		return fmt.Errorf("%w: it does not begin like one", ErrNotWhole)
	}
	if _, err := fmt.Sscanf(string(line[len(Magic):]), "%d}", &found); err != nil || found != version {
		return fmt.Errorf("%w that this version can read: it has format %d", ErrNotWhole, found)
	}
	return nil
}

// end checks that nothing follows.
func (l *lines) end() error {
	_, err := l.from.ReadByte()
	if err == nil {
		return fmt.Errorf("%w: something follows its end", ErrNotWhole)
	}
	if err != io.EOF {
		return err
	}
	return nil
}

// decodeLine decodes an item, or the end.
func decodeLine(line []byte) (Item, *end, error) {
	var w wireItem
	if err := json.Unmarshal(line, &w); err != nil {
		return Item{}, nil, err
	}
	if w.End != nil {
		return Item{}, w.End, nil
	}
	item, err := w.item()
	return item, nil, err
}
