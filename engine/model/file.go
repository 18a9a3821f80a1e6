// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// magic begins every weights file. Its last byte is the version of the layout.
const magic = "CADDYMOD\x03"

// maxFile and maxBody are the maximum sizes of a weights file and of its decompressed body, in bytes, so that a wrong
// file cannot exhaust the memory.
const (
	maxFile = 64 << 20
	maxBody = 128 << 20
)

// The errors of [Load].
var (
	// ErrNotModel reports that the input is not a weights file of this layout.
	ErrNotModel = errors.New("not a weights file")
	// ErrCorrupt reports that the file is cut short or altered: its SHA-256 does not match, or its content is not
	// valid.
	ErrCorrupt = errors.New("weights file is corrupt")
	// ErrSchema reports that the file was trained for other features or other heads than those of this build.
	ErrSchema = errors.New("weights file was trained for other features")
)

// Header describes a weights file, in which it is stored as JSON. The JSON names are part of the file format and stay,
// even where they are older than the names of the fields.
type Header struct {
	// Schema identifies the features; see [Schema].
	Schema string `json:"schema"`
	// Language is the BCP 47 tag of the language that the weights are for, "" for English.
	Language string `json:"language,omitempty"`
	// Negators are the folded words that negate those after them. Empty stands for those of English.
	Negators []string `json:"negators,omitempty"`
	// Heads is [HeadNames] as they were when the weights were trained.
	Heads []string `json:"heads"`
	// TrainingDigest is the SHA-256 of the training examples, in hex.
	TrainingDigest string `json:"training_digest"`
	// Examples is the number of training examples.
	Examples int `json:"examples"`
	// Buckets is the size of the table, a power of two.
	Buckets int `json:"buckets"`
	// CNNThreshold is the logit of a category, by the linear model alone, above which the network classifies a window.
	CNNThreshold float64 `json:"gate"`
	// HarmShare is the share of harmful texts, from 0.0001 to 0.9999, in the traffic that Calibration assumes: the
	// shares of all categories together. 0 stands for [DefaultHarmShare]; files that are older than this field have
	// none.
	HarmShare float64 `json:"harm_share,omitempty"`
	// Calibration turns sums of weights into probabilities, for each head.
	Calibration [Heads]Calibration `json:"calibration"`
}

// DefaultHarmShare is the share of harmful texts that the calibration of a weights file assumes if its header does not
// say it.
const DefaultHarmShare = 0.25

// Calibration is how one head turns sums of weights into a probability:
//
//	logit of a window by the linear model = Bias + Scale * sum / Norm(features)
//
// What follows depends on whether the network classified windows of the text.
type Calibration struct {
	Scale float64 `json:"scale"`
	Bias  float64 `json:"bias"`
	// Alone is for texts that the linear model is sure of.
	Alone Curve `json:"alone"`
	// Both is for texts that the network classified too.
	Both Curve `json:"read"`
	// Long is for those of them that have five small windows or more.
	Long LongCurve `json:"long"`
}

// Curve turns logits into a probability:
//
//	sigmoid(Large*l + CNN*r + Small*s + Length*n + Offset)
//
// l and r are the logits by the linear model and by the network of one large window: the one with the largest Large*l +
// CNN*r among those that the network classified. s is the largest logit of a small window by the linear model, n the
// natural logarithm of the number of small windows. Where the network classified nothing, r is 0 and l is the largest
// logit of any large window. For the attributes l is always that.
type Curve struct {
	Large  float64 `json:"large"`
	CNN    float64 `json:"reader,omitempty"`
	Small  float64 `json:"small"`
	Length float64 `json:"length,omitempty"`
	Offset float64 `json:"offset"`
}

// LongCurve turns the logits of a longer text into a probability:
//
//	sigmoid(Window*u + Sentence*v + Max*max(u, v) + Length*n + Offset)
//
// u is the largest Large*l + CNN*r, by [Calibration.Both], of a large window that the network classified, v that of a
// small one. n is as in [Curve].
type LongCurve struct {
	Window   float64 `json:"window"`
	Sentence float64 `json:"sentence"`
	Max      float64 `json:"worst"`
	Length   float64 `json:"length"`
	Offset   float64 `json:"offset"`
}

// sum adds up all numbers of a calibration. It is finite only if they all are.
func (c Calibration) sum() float64 {
	sum := c.Scale + c.Bias + c.Long.Window + c.Long.Sentence + c.Long.Max + c.Long.Length + c.Long.Offset
	for _, curve := range []Curve{c.Alone, c.Both} {
		sum += curve.Large + curve.CNN + curve.Small + curve.Length + curve.Offset
	}
	return sum
}

// Row holds the learned weights of one feature.
type Row struct {
	// Hash identifies the feature.
	Hash uint64
	// Weights are in units of the head's scale.
	Weights [Heads]int8
}

// Weights are the result of a training.
type Weights struct {
	// Rows are in the order of their importance: where a bucket of the table is full, later rows are left out.
	Rows []Row
	// Clusters are those that the features were computed with.
	Clusters map[uint64]uint16
	// Words are the words of the dictionary that recovers disguised ones ([text.NewDictionary]). The weights of the
	// commonest are added up when the file is loaded, so that classifying is faster.
	Words []text.Word
	// CNN is the second stage, or nil for a model without one.
	CNN *cnn.Model
}

// Write writes a weights file. It sets the schema and the heads of the header itself. The same header and weights give
// the same bytes.
func Write(w io.Writer, header Header, weights Weights) error {
	if header.Buckets <= 0 || bits.OnesCount(uint(header.Buckets)) != 1 {
		return fmt.Errorf("buckets must be a power of two, not %d", header.Buckets)
	}
	header.Schema, header.Heads = Schema(), HeadNames[:]
	t := newTableBuilder(header.Buckets)
	for _, r := range weights.Rows {
		t.insert(r.Hash, r.Weights)
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("starting compression: %w", err)
	}
	body := slices.Concat(
		marshalWords(weights.Words), marshalCNN(weights.CNN), marshalClusters(weights.Clusters), t.marshal(),
	)
	return assemble(w, header, enc.EncodeAll(body, nil))
}

// assemble writes a weights file with a compressed body.
func assemble(w io.Writer, header Header, body []byte) error {
	head, err := json.Marshal(header)
	if err != nil {
		return fmt.Errorf("encoding the header: %w", err)
	}
	var file bytes.Buffer
	file.WriteString(magic)
	file.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(head))))
	file.Write(head)
	file.Write(body)
	sum := sha256.Sum256(file.Bytes())
	file.Write(sum[:])
	_, err = file.WriteTo(w)
	return err
}

// Recalibrate writes a copy of a weights file with another [Header.CNNThreshold] and calibration. The rest of the
// header stays: [SetHarmShare] changes the share that the new calibration assumes.
func Recalibrate(w io.Writer, file []byte, threshold float64, calibration [Heads]Calibration) error {
	return reheader(w, file, func(h *Header) { h.CNNThreshold, h.Calibration = threshold, calibration })
}

// SetHarmShare writes a copy of a weights file with another [Header.HarmShare], from 0.0001 to 0.9999.
func SetHarmShare(w io.Writer, file []byte, share float64) error {
	if !isHarmShare(share) {
		return fmt.Errorf("a share of harm must be from 0.0001 to 0.9999, not %v", share)
	}
	return reheader(w, file, func(h *Header) { h.HarmShare = share })
}

// isHarmShare reports whether a header may have a share of harm. Beyond these bounds the odds lose their digits.
func isHarmShare(share float64) bool { return share >= 0.0001 && share <= 0.9999 }

// reheader writes a copy of a weights file with a changed header.
func reheader(w io.Writer, file []byte, change func(*Header)) error {
	m, err := decode(file)
	if err != nil {
		return err
	}
	size := int(binary.LittleEndian.Uint32(file[len(magic):]))
	change(&m.header)
	return assemble(w, m.header, file[len(magic)+4+size:len(file)-sha256.Size])
}

// Load reads a weights file. It refuses one that is altered ([ErrCorrupt]) or that was trained for other features or
// heads ([ErrSchema]).
func Load(r io.Reader) (*Model, error) {
	file, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading weights: %w", err)
	}
	return decode(file)
}

func decode(file []byte) (*Model, error) {
	if len(file) < len(magic) || string(file[:len(magic)]) != magic {
		return nil, ErrNotModel
	}
	if len(file) > maxFile || len(file) < len(magic)+4+sha256.Size {
		return nil, ErrCorrupt
	}
	content, sum := file[:len(file)-sha256.Size], file[len(file)-sha256.Size:]
	if got := sha256.Sum256(content); !bytes.Equal(got[:], sum) {
		return nil, ErrCorrupt
	}
	content = content[len(magic):]
	size, content, ok := takeLength(content)
	if !ok || size > len(content) {
		return nil, ErrCorrupt
	}
	m := new(Model)
	if err := json.Unmarshal(content[:size], &m.header); err != nil {
		return nil, fmt.Errorf("%w: its header: %w", ErrCorrupt, err)
	}
	if m.header.Schema != Schema() {
		return nil, fmt.Errorf("%w: the file has %q, this build has %q; train it again",
			ErrSchema, m.header.Schema, Schema())
	}
	m.ownScript = slices.Contains(otherScripts, m.header.Language)
	if !slices.Equal(m.header.Heads, HeadNames[:]) {
		return nil, fmt.Errorf("%w: the file has the heads %q, this build has %q; train it again",
			ErrSchema, m.header.Heads, HeadNames)
	}
	if b := m.header.Buckets; b <= 0 || b > maxBody/(slots*lanes) || bits.OnesCount(uint(b)) != 1 {
		return nil, fmt.Errorf("%w: %d buckets", ErrCorrupt, b)
	}
	if s := m.header.HarmShare; s != 0 && !isHarmShare(s) {
		return nil, fmt.Errorf("%w: a share of harm of %v", ErrCorrupt, s)
	}
	for i, c := range m.header.Calibration {
		if bad := c.sum(); math.IsNaN(bad) || math.IsInf(bad, 0) {
			return nil, fmt.Errorf("%w: calibration of %s", ErrCorrupt, HeadNames[i])
		}
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBody))
	if err != nil {
		return nil, fmt.Errorf("starting decompression: %w", err)
	}
	defer dec.Close()
	body, err := dec.DecodeAll(content[size:], nil)
	if err != nil {
		return nil, fmt.Errorf("%w: its body: %w", ErrCorrupt, err)
	}
	words, body, ok := unmarshalWords(body)
	if ok {
		if m.cnn, body, err = unmarshalCNN(body); err != nil {
			return nil, fmt.Errorf("%w: its network: %w", ErrCorrupt, err)
		}
		m.clusters, body = unmarshalClusters(body)
	}
	if ok {
		m.table, ok = unmarshalTable(body, m.header.Buckets)
	}
	if !ok {
		return nil, fmt.Errorf("%w: its body has a wrong length", ErrCorrupt)
	}
	m.makeVocabulary(words)
	if len(words) > 0 {
		m.dictionary = text.NewDictionary(words, m.header.Negators...)
	}
	m.version = fmt.Sprintf("cascade-1-%x", sum[:4])
	return m, nil
}

// appendLength appends a length or a number of elements.
func appendLength(out []byte, n int) []byte { return binary.LittleEndian.AppendUint32(out, uint32(n)) }

// takeLength returns what appendLength appended, from 0 also where an int has 32 bits, and the rest of the body.
func takeLength(body []byte) (n int, rest []byte, ok bool) {
	if len(body) < 4 {
		return 0, nil, false
	}
	length := binary.LittleEndian.Uint32(body)
	return int(length & math.MaxInt32), body[4:], length <= math.MaxInt32
}

// marshalCNN encodes the network after its length, which is 0 where there is none.
func marshalCNN(network *cnn.Model) []byte {
	if network == nil {
		return appendLength(nil, 0)
	}
	body := network.Marshal()
	return append(appendLength(nil, len(body)), body...)
}

// unmarshalCNN returns the network, nil where there is none, and the rest of the body.
func unmarshalCNN(body []byte) (*cnn.Model, []byte, error) {
	n, body, ok := takeLength(body)
	if !ok || n > len(body) {
		return nil, nil, cnn.ErrCorrupt
	}
	if n == 0 {
		return nil, body, nil
	}
	network, err := cnn.Unmarshal(body[:n])
	return network, body[n:], err
}

// marshalClusters encodes the clusters in the order of the hashes: their number, all hashes, all clusters.
func marshalClusters(clusters map[uint64]uint16) []byte {
	hashes := slices.Sorted(maps.Keys(clusters))
	out := appendLength(nil, len(hashes))
	for _, h := range hashes {
		out = binary.LittleEndian.AppendUint64(out, h)
	}
	for _, h := range hashes {
		out = binary.LittleEndian.AppendUint16(out, clusters[h])
	}
	return out
}

// unmarshalClusters returns the clusters and the rest of the body, which is nil where the body is cut short.
func unmarshalClusters(body []byte) (clusters Clusters, rest []byte) {
	const each = 8 + 2
	n, body, ok := takeLength(body)
	if !ok || n > len(body)/each {
		return Clusters{}, nil
	}
	hashes, numbers := make([]uint64, n), make([]uint16, n)
	for i := range n {
		hashes[i] = binary.LittleEndian.Uint64(body[8*i:])
		numbers[i] = binary.LittleEndian.Uint16(body[8*n+2*i:])
	}
	if !slices.IsSorted(hashes) {
		return Clusters{}, nil
	}
	return makeClusters(hashes, numbers), body[each*n:]
}

// SortRows sorts rows by importance, the most important first, and rows of equal importance by hash, so that the order
// is always the same.
func SortRows(rows []Row, importance func(Row) float64) {
	keys := make(map[uint64]float64, len(rows))
	for _, r := range rows {
		keys[r.Hash] = importance(r)
	}
	sort.Slice(rows, func(i, j int) bool {
		a, b := keys[rows[i].Hash], keys[rows[j].Hash]
		if a != b {
			return a > b
		}
		return rows[i].Hash < rows[j].Hash
	})
}
