// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package lexicon

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// A file consists of the magic, the SHA-256 of the rest, and a zstd frame. The frame holds the numbers of terms,
// synsets and dimensions, then the tables one after another. Numbers are variable-length integers.
const magic = "CMTHEME1"

// maxPayload is the maximum size of an unpacked file in bytes, so that a damaged file cannot exhaust memory.
const maxPayload = 64 << 20

// ErrDamaged is returned by [Open] for bytes that are not a whole lexicon file of this version.
var ErrDamaged = errors.New("lexicon: not a whole file of this version")

// Data is the content of a lexicon file. engine/train/cmd/lexicon fills it in.
type Data struct {
	// Terms are in ascending order without repetition: lower case, words separated by one space.
	Terms []string
	// Seen holds, per term, 8 times the binary logarithm of the total frequency over its own; 255 means never seen.
	Seen []uint8
	// Opaque holds, per phrase, a bit for each word that means something else in it than by itself, and 0 for other
	// terms.
	Opaque []uint8
	// Senses holds the meanings of each term, by ascending synset.
	Senses [][]Sense
	// Kinds holds the part of speech of each synset.
	Kinds []uint8
	// Parents and Domains hold, per synset, ascending synsets.
	Parents, Domains [][]uint32
	// Derived holds, per term, terms of the same root in ascending order.
	Derived [][]Link
	// Explains holds, per term, the terms whose glosses mention it, in ascending order.
	Explains [][]Link
	// Dims is the number of dimensions of the vectors.
	Dims int
	// Vectors holds a vector for some terms, nil for the others.
	Vectors [][]int8
}

// Encode returns the data as a file. The same data gives the same bytes. It returns an error if the tables differ in
// length or the terms are not in order.
func (d *Data) Encode() ([]byte, error) {
	terms, synsets := len(d.Terms), len(d.Kinds)
	if len(d.Seen) != terms || len(d.Opaque) != terms || len(d.Senses) != terms || len(d.Derived) != terms ||
		len(d.Explains) != terms || len(d.Vectors) != terms || len(d.Parents) != synsets || len(d.Domains) != synsets {
		return nil, errors.New("lexicon: tables differ in length")
	}
	if !slices.IsSorted(d.Terms) {
		return nil, errors.New("lexicon: terms are not in order")
	}
	var out []byte
	number := func(n int) { out = binary.AppendUvarint(out, uint64(n)) }
	number(len(d.Terms))
	number(len(d.Kinds))
	number(d.Dims)
	last := ""
	for _, term := range d.Terms {
		shared := 0
		for shared < len(last) && shared < len(term) && last[shared] == term[shared] {
			shared++
		}
		number(shared)
		number(len(term) - shared)
		out = append(out, term[shared:]...)
		last = term
	}
	out = append(out, d.Seen...)
	out = append(out, d.Opaque...)
	for _, senses := range d.Senses {
		number(len(senses))
		before := 0
		for _, s := range senses {
			number(int(s.Synset) - before)
			before = int(s.Synset)
			out = append(out, s.Prior)
		}
	}
	out = append(out, d.Kinds...)
	for _, table := range [][][]uint32{d.Parents, d.Domains} {
		for _, row := range table {
			number(len(row))
			before := 0
			for _, to := range row {
				number(int(to) - before)
				before = int(to)
			}
		}
	}
	for _, links := range slices.Concat(d.Derived, d.Explains) {
		number(len(links))
		before := 0
		for _, link := range links {
			number(int(link.Term) - before)
			before = int(link.Term)
			out = append(out, link.Weight)
		}
	}
	for _, v := range d.Vectors {
		number(len(v) / max(d.Dims, 1))
	}
	for _, v := range d.Vectors {
		for _, x := range v {
			out = append(out, byte(x))
		}
	}
	packer, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	frame := packer.EncodeAll(out, nil)
	sum := sha256.Sum256(frame)
	return slices.Concat([]byte(magic), sum[:], frame), nil
}

// Open reads a file that [Data.Encode] wrote. It returns [ErrDamaged] for anything else.
func Open(file []byte) (*Lexicon, error) {
	head := len(magic) + sha256.Size
	if len(file) < head || string(file[:len(magic)]) != magic {
		return nil, ErrDamaged
	}
	if sum := sha256.Sum256(file[head:]); !bytes.Equal(sum[:], file[len(magic):head]) {
		return nil, ErrDamaged
	}
	reader, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPayload))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	payload, err := reader.DecodeAll(file[head:], nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	in := &input{rest: payload}
	l := in.lexicon()
	if in.failed || len(in.rest) != 0 {
		return nil, ErrDamaged
	}
	return l, nil
}

// input decodes a payload. After a failure it returns zeros, so that failed has to be checked only at the end.
type input struct {
	rest   []byte
	failed bool
}

func (in *input) number() int {
	n, size := binary.Uvarint(in.rest)
	if size <= 0 || n > maxPayload {
		in.failed, in.rest = true, nil
		return 0
	}
	in.rest = in.rest[size:]
	return int(n)
}

func (in *input) bytes(n int) []byte {
	if n < 0 || n > len(in.rest) {
		in.failed, in.rest = true, nil
		return nil
	}
	b := in.rest[:n:n]
	in.rest = in.rest[n:]
	return b
}

// count decodes a number of items that take at least one byte each.
func (in *input) count() int {
	n := in.number()
	if n > len(in.rest) {
		in.failed, in.rest = true, nil
		return 0
	}
	return n
}

// relation decodes rows of ascending numbers below limit. If weighted, a byte follows each number.
func (in *input) relation(rows, limit int, weighted bool) (r relation, weights []uint8) {
	r.at = make([]uint32, 1, rows+1)
	for range rows {
		value := 0
		for range in.count() {
			value += in.number()
			if value >= limit {
				in.failed, in.rest = true, nil
				return relation{at: make([]uint32, rows+1)}, nil
			}
			r.to = append(r.to, uint32(value))
			if weighted {
				weights = append(weights, append(in.bytes(1), 0)[0])
			}
		}
		r.at = append(r.at, uint32(len(r.to)))
	}
	// Copies without spare capacity, because these stay in memory for the life of the process.
	r.to = append(make([]uint32, 0, len(r.to)), r.to...)
	return r, append(make([]uint8, 0, len(weights)), weights...)
}

func (in *input) lexicon() *Lexicon {
	l := &Lexicon{}
	terms, synsets := in.count(), in.number()
	l.dims = in.number()
	if l.dims > 128 || l.dims%8 != 0 || synsets > len(in.rest) {
		in.failed = true
		return nil
	}
	var text strings.Builder
	l.ends = make([]uint32, terms)
	last := []byte(nil)
	for i := range l.ends {
		shared := in.number()
		own := in.bytes(in.number())
		if shared > len(last) {
			in.failed = true
			return nil
		}
		last = append(last[:shared], own...)
		text.Write(last)
		l.ends[i] = uint32(text.Len())
	}
	l.text = []byte(text.String())
	l.seen = slices.Clone(in.bytes(terms))
	l.opaque = slices.Clone(in.bytes(terms))
	l.senses, l.priors = in.relation(terms, synsets, true)
	l.kinds = slices.Clone(in.bytes(synsets))
	l.parents, _ = in.relation(synsets, synsets, false)
	l.domains, _ = in.relation(synsets, synsets, false)
	l.derived, l.nearness = in.relation(terms, terms, true)
	l.explains, l.closeness = in.relation(terms, terms, true)
	l.vector = make([]uint32, terms)
	rows := 0
	for i := range l.vector {
		if in.number() == 1 {
			rows++
			l.vector[i] = uint32(rows)
		}
	}
	raw := in.bytes(rows * l.dims)
	l.vectors = make([]int8, len(raw))
	for i, b := range raw {
		l.vectors[i] = int8(b)
	}
	if in.failed {
		return nil
	}
	l.prepare(synsets)
	return l
}
