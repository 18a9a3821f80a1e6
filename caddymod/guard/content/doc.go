// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package content extracts the texts of an HTTP message: what a person would read there, and where it stands.
//
// It is written for messages of people who do not want their texts to be found. The type that a body declares
// ([TypeOf]) gives its first reading. What the body looks like, and what other programs may take it for, give further
// readings ([Piece.Reading]), and none takes another away. Nothing that may be language is dropped because a parser
// gives up:
//
//   - The JSON scanner never fails. Whatever a lenient parser of an app may take for a value (comments, single quotes,
//     several values, broken nesting) is extracted, and what stands outside of values is taken for plain text.
//   - A body that is a form and looks like JSON is read as both.
//   - All duplicates count, names are compared in any case, and texts in other charsets are decoded.
//
// Pieces share memory with the body where nothing had to be decoded, so that an ordinary text is never copied.
//
// # Where to look
//
// From the outside in:
//
//   - selection.go chooses the parser of a body ([Selection.Extract]); stream.go does the same for bodies that are
//     too large to be held; type.go and boundary.go interpret Content-Type and sniff bodies that have none; decode.go
//     undoes Content-Encoding.
//   - json.go, form.go and markup.go (with tag.go and entity.go) are the parsers. richtext.go joins the strings of an
//     editor's blocks, roles.go picks the messages of a chat, credentials.go leaves out passwords and tokens, and
//     pointer.go selects places.
//   - charset.go lists the readings of bytes in charsets; unfold.go has that of programs which join lines.
//   - blob.go leaves out base64, identifiers and times; mixed.go and bigrams.go find language in binary data.
//   - piece.go has what all of them return.
//
// Then, for one text: visible.go has what an app shows of it, and deobfuscate.go what is left without disguises (with
// render.go, bbcode.go, wordmarks.go and glyphs.go).
package content
