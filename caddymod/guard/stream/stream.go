// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package stream judges text while it flows, and holds back what is not judged yet.
//
// [Events] reads server-sent events and lines of JSON as language models send them, [Text] reads plain text. What comes in
// goes out byte for byte and in order, as soon as the text that it carries, and all text before it, is judged to be fine.
//
// All strings of an event are read. Those that stand at the same place in the events that follow each other are one text, in
// which nothing is put between them, so that no format need be known to be read. What is known of formats says where there is
// nothing to read (calls of tools, sound, identifiers), where alternatives stand, when a text ends, and how a stream ends when
// it is rejected. Where readers may differ in what belongs together, because events have types or arrays several elements,
// each way is judged.
//
// Text waits for the end
// of its sentence, or for a number of characters, whichever comes first. It is judged together with what went before, so that
// a threat that is spread over sentences is seen. When text is rejected, what is held back is dropped, and events end with
// final ones that their readers understand.
//
// How the bytes are cut into writes changes nothing of what goes out. It changes the cost alone: sentences that come together
// are judged together, and one by one only if they are rejected together. So there is at most one judgement per sentence or
// number of characters, plus one for the rejection.
//
// There are no goroutines and no timers: everything happens within Write and Close.
package stream

import (
	"errors"
	"fmt"
	"io"
)

// Moderate says whether a text may go on. The text is the part that waits to be released behind some of what went before it.
// An error says that it could not be judged; see [Options.FailOpen]. It must not keep a reference to the text.
type Moderate func(text string) (ok bool, err error)

// Defaults of [Options], in characters.
const (
	DefaultHold    = 200
	DefaultContext = 2000
)

// Limits of memory and of work, in bytes, in texts and in pointers.
const (
	// MaxEvent is the size of the largest event that is read by its structure. The bytes of a larger one are judged as plain
	// text, in pieces. What is held back is never more than 1 MiB and one event.
	MaxEvent = 4 << 20
	// maxHeld is how much is held back of events that wait for the end of a sentence.
	maxHeld = 1 << 20
	// MaxDelta is the number of pointers that [Options.Delta] may have.
	MaxDelta = 32
	// maxTexts is the number of texts of a stream that are kept apart; further ones are judged as one.
	maxTexts = 128
	// slice is how much of a write is taken at once.
	slice = 32 << 10
)

// Options say what is judged, and how. Only Judge is needed.
type Options struct {
	// Moderate says whether a text may go on.
	Moderate Moderate
	// Strict judges what is only another view of texts that are judged, and names, numbers and identifiers, in which nothing
	// but what is to be rejected matters. Nil means Judge.
	Strict Moderate
	// Flush is called after each release. Nil means that nothing is to be flushed.
	Flush func() error
	// Delta says where in the JSON data of an event the text stands: JSON Pointers (RFC 6901) in parts, in which "*" is any
	// member or element. A pointer to an array or an object means all strings in it. At most [MaxDelta]. Empty means all
	// strings, but for what is known to be no text, and data that is not JSON.
	Delta [][]string
	// Hold is the number of characters at which text goes on before its sentence ends. 0 means [DefaultHold].
	Hold int
	// Context is the number of characters of the text before that are judged again with each part. 0 means [DefaultContext].
	Context int
	// FailOpen lets text go on that could not be judged. Without it that ends the stream as a rejection does.
	FailOpen bool
	// Final is the data of the events that end a rejected stream, in place of those that fit to the events that came.
	Final [][]byte
}

// Errors of Write and Close. Once one of them was returned, all that follows is dropped and the same error returned again.
var (
	// ErrRejected says that the judge rejected a text. The stream has ended for its reader.
	ErrRejected = errors.New("the text was rejected")
	// ErrUnjudged says that a text could not be judged, and that the stream has ended for its reader because of that.
	ErrUnjudged = errors.New("the text could not be judged")
)

// normal returns o with its defaults filled in.
func (o Options) normal() Options {
	if o.Flush == nil {
		o.Flush = func() error { return nil }
	}
	if o.Strict == nil {
		o.Strict = o.Moderate
	}
	if o.Hold <= 0 {
		o.Hold = DefaultHold
	}
	if o.Context <= 0 {
		o.Context = DefaultContext
	}
	return o
}

// judge asks the judge, and makes what it says what is to happen.
func (o *Options) judge(text []byte) error {
	ok, err := o.Moderate(string(text))
	switch {
	case err != nil && !o.FailOpen:
		return fmt.Errorf("%w: %w", ErrUnjudged, err)
	case err == nil && !ok:
		return ErrRejected
	}
	return nil
}

// send writes p and flushes it.
func (o *Options) send(dst io.Writer, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if _, err := dst.Write(p); err != nil {
		return err
	}
	return o.Flush()
}
