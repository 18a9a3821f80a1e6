// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package stream moderates text while it streams, and holds back what is not moderated yet.
//
// [Events] moderates server-sent events and lines of JSON as language models send them, [Text] moderates plain text,
// and [Plain] finds out by itself which of these it has. What comes in goes out byte for byte and in order, as soon
// as the text that it carries, and all text before it, is found to be fine.
//
// All strings of an event are extracted. The strings at the same place in successive events are one text, with
// nothing put between them, so that a format need not be known to be understood. What is known of formats says where
// there is no text (tool calls, audio, identifiers), where alternatives stand, when a text ends, and how to end a
// stream that is rejected. Where programs may disagree about what belongs together, because events have types or
// arrays have several elements, each way is moderated.
//
// Text waits for the end of its sentence, or for a number of characters, whichever comes first. It is moderated
// together with what went before it, so that a threat that is spread over sentences is seen. When text is rejected,
// what is held back is dropped, and a stream of events ends with events that its client understands.
//
// How the bytes are cut into writes does not change what goes out, only the cost: sentences that come together are
// moderated together, and one by one only if they are rejected together. So there is at most one call of
// [Options.Moderate] per sentence or number of characters, plus one for the rejection.
//
// There are no goroutines and no timers: everything happens within Write and Close.
//
// # Where to look
//
// events.go has the queue of events. framing.go cuts a stream into events, parse.go and lenient.go parse the JSON of
// one, and tree.go remembers the places that a stream has shown. protocols.go is what is known of the APIs of
// language models, ending.go writes the events that end a stream, and filtered.go an answer that was filtered.
// textbuffer.go is a growing text that is moderated sentence by sentence. text.go, plain.go, detector.go and
// extract.go are the other entry points.
package stream

import (
	"errors"
	"fmt"
	"io"
)

// Moderate reports whether a text may go out. The text is what waits to be released, behind some of what went before
// it. An error says that the text could not be moderated, see [Options.FailOpen]. The function must not keep a
// reference to the text.
type Moderate func(text string) (ok bool, err error)

// Defaults of [Options], in characters.
const (
	DefaultHold    = 200
	DefaultContext = 2000
)

// Limits of memory and work.
const (
	// MaxEvent is the maximum size, in bytes, of an event that is parsed. The bytes of a larger one are moderated as
	// plain text, in parts. At most 1 MiB and one event are held back.
	MaxEvent = 4 << 20
	// maxHeld is the maximum size, in bytes, of events that wait for the end of a sentence.
	maxHeld = 1 << 20
	// MaxDelta is the maximum number of pointers in [Options.Delta].
	MaxDelta = 32
	// maxTexts is the maximum number of texts of a stream that are kept apart. Further ones are moderated as one.
	maxTexts = 128
	// maxSlice is the maximum number of bytes of a write that are processed at once.
	maxSlice = 32 << 10
)

// Options says what is moderated, and how. Only Moderate is required.
type Options struct {
	// Moderate decides whether a text may go out.
	Moderate Moderate
	// RejectOnly decides about texts that count only if they are rejected: other views of texts that Moderate decides
	// about, and names, numbers and identifiers. Default: Moderate.
	RejectOnly Moderate
	// Judged is told of each part of a text once, in order, when it goes out or is rejected: without its context, and
	// without texts that are other views, names, numbers or identifiers. It must not keep a reference to the text.
	// Default: nobody is told.
	Judged func(text []byte)
	// Flush is called after each release. Default: nothing is flushed.
	Flush func() error
	// Delta says where in the JSON data of an event the text is: JSON Pointers (RFC 6901), split into parts, in which
	// "*" is any member or element. A pointer to an array or an object selects all strings in it. At most [MaxDelta].
	// Default: all strings that are not known to be no text, and data that is not JSON.
	Delta [][]string
	// Hold is the number of characters at which text goes out before its sentence ends. Default: [DefaultHold].
	Hold int
	// Context is the number of preceding characters that are moderated again with each part. Default:
	// [DefaultContext].
	Context int
	// FailOpen lets text go out that could not be moderated. Without it, such text ends the stream as a rejection
	// does.
	FailOpen bool
	// Final is the data of the events that end a rejected stream, in place of those of its protocol.
	Final [][]byte
}

// Errors of Write and Close. After one of them, everything that follows is dropped, and the same error is returned.
var (
	// ErrRejected says that a text was rejected. The stream has ended for its client.
	ErrRejected = errors.New("the text was rejected")
	// ErrUnjudged says that a text could not be moderated, and that the stream has ended for its client because of
	// that.
	ErrUnjudged = errors.New("the text could not be judged")
)

// withDefaults returns o with its defaults filled in.
func (o Options) withDefaults() Options {
	if o.Flush == nil {
		o.Flush = func() error { return nil }
	}
	if o.RejectOnly == nil {
		o.RejectOnly = o.Moderate
	}
	if o.Hold <= 0 {
		o.Hold = DefaultHold
	}
	if o.Context <= 0 {
		o.Context = DefaultContext
	}
	return o
}

// moderate asks Moderate about a text, and returns the error with which the stream is to end.
func (o *Options) moderate(text []byte) error {
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
