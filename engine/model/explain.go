// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine/cnn"
	"github.com/caddy-moderation/caddy-moderation/engine/text"
)

// Evidence is a span of a text that carries the probability of a head.
type Evidence struct {
	// Begin and End are its place in code points; End is exclusive.
	Begin, End int
	// Weight is its share of everything that speaks for the head, above 0 and at most 1.
	Weight float64
}

// Passage is the part of a text that decided about a head, in code points; End is exclusive.
type Passage struct {
	Begin, End int
}

// Explanation says where in a text the probability of a head comes from.
type Explanation struct {
	// Evidence holds at most [MaxEvidence] spans, in the order of the text and without overlap. It is empty where no
	// word speaks for the head.
	Evidence []Evidence
	// Passage is the window that decided. It overlaps the strongest evidence, and begins and ends with a word and the
	// punctuation next to it. It is zero for a head that was not wanted, and for a text of white space alone.
	Passage Passage
}

const (
	// MaxEvidence is the maximum number of spans for a head.
	MaxEvidence = 5
	// minShare is what a token, and then a span, must carry, as a share of what the strongest one does.
	minShare = 0.15
	// maxOccluded is the maximum number of tokens that the network leaves out of the windows of a text, one at a time,
	// which is what takes the time. It is enough for two windows of 56 tokens and their small windows. Heads with high
	// probabilities come first; heads for which nothing is left are explained by the linear model alone.
	maxOccluded = 160
)

// Explain explains the wanted heads of a text: see [Explainable.Explain].
func (m *Model) Explain(content string, wanted [Heads]bool) [Heads]Explanation {
	x := m.ClassifyExplainable(content)
	defer x.Close()
	return x.Explain(wanted)
}

// Explainable is a classified text, with everything that is needed to explain it. It is not safe for concurrent use.
type Explainable struct {
	// Probabilities and Words are what [Model.Classify] returns.
	Probabilities Probabilities
	Words         int
	// Foreign, Known and Unknown are as in [Reading].
	Foreign        bool
	Known, Unknown int

	model     *Model
	content   string
	points    []rune // of content; nil until they are needed
	scratch   *scratch
	text      *text.Scratch
	tokens    []text.Token
	occlusion *cnn.Occlusion
	carried   []float64 // what each token carries of the logit of the head that is being explained
	left      int       // how many more tokens the network may leave out
}

// ClassifyExplainable classifies content as [Model.Classify] does. The caller must close the result.
func (m *Model) ClassifyExplainable(content string) *Explainable {
	x := &Explainable{model: m, content: content, scratch: m.scratch(), text: text.Get()}
	x.tokens = m.Tokenize(x.text, content)
	x.Probabilities, x.Words = m.classify(x.scratch, x.tokens), x.text.Words()
	x.Foreign, x.Known, x.Unknown = x.scratch.foreign >= enoughForeign, x.scratch.known, x.scratch.unknown
	return x
}

// Close gives the memory back. The text must not be explained afterwards.
func (x *Explainable) Close() {
	clear(x.scratch.classified)
	x.model.release(x.scratch)
	text.Put(x.text)
}

// Explain finds the evidence for the wanted heads, and the passage that decided.
//
// A token carries as much as the head's logit falls when the token is left out of the windows that decide: the linear
// model loses the token's features, and the network classifies the window again without it. Neighbours in a sentence
// make one span. A repetition counts for nothing with the model, so it carries nothing.
//
// The passage is the window with the largest logit by all stages that classified it. Small windows count where the text
// has enough of them: see [Logits.Length].
func (x *Explainable) Explain(wanted [Heads]bool) (explanations [Heads]Explanation) {
	x.carried, x.left = make([]float64, len(x.tokens)), maxOccluded
	var heads []int
	for h := range wanted {
		if wanted[h] {
			heads = append(heads, h)
		}
	}
	slices.SortStableFunc(heads, func(a, b int) int { return cmp.Compare(x.Probabilities[b], x.Probabilities[a]) })
	for _, h := range heads {
		clear(x.carried)
		windows := x.leaveOut(h)
		evidence := x.evidence()
		explanations[h] = Explanation{Evidence: evidence, Passage: x.decisive(windows, evidence)}
	}
	return explanations
}

// networkWindow is a window that the network classified.
type networkWindow struct {
	Window
	logits [cnn.Outputs]float32
	// occluded are the logits without each of the window's kept tokens; nil until they are needed.
	occluded [][cnn.Outputs]float32
}

// evidence makes spans of what the tokens carry.
func (x *Explainable) evidence() []Evidence {
	largest, all := 0.0, 0.0
	for _, c := range x.carried {
		if c > 0 {
			largest, all = max(largest, c), all+c
		}
	}
	if largest == 0 {
		return nil
	}
	var out []Evidence
	last := -1 // the token that the last span ends with
	for i, c := range x.carried {
		if c < minShare*largest {
			continue
		}
		begin, end := x.span(i)
		adjacent := last == i-1 && last >= 0 && x.tokens[last].Flags&text.SentenceEnd == 0
		if n := len(out) - 1; n >= 0 && (begin < out[n].End || adjacent) {
			out[n].End = max(out[n].End, end)
			out[n].Weight += c
		} else {
			out = append(out, Evidence{Begin: begin, End: end, Weight: c})
		}
		last = i
	}
	for i := range out {
		out[i].Weight = min(out[i].Weight/all, 1)
	}
	return strongest(out)
}

// strongest keeps the spans with the largest weights, in their order.
func strongest(evidence []Evidence) []Evidence {
	byWeight := slices.Clone(evidence)
	slices.SortStableFunc(byWeight, func(a, b Evidence) int { return cmp.Compare(b.Weight, a.Weight) })
	byWeight = byWeight[:min(len(byWeight), MaxEvidence)]
	least := minShare * byWeight[0].Weight
	byWeight = slices.DeleteFunc(byWeight, func(e Evidence) bool { return e.Weight < least })
	slices.SortFunc(byWeight, func(a, b Evidence) int { return cmp.Compare(a.Begin, b.Begin) })
	return byWeight
}

// span returns the place of a token in the text. Words that were joined are parts of one typed word; where that is
// disguised too, the places of its parts are not known exactly, and the span is that of all of them.
func (x *Explainable) span(i int) (begin, end int) {
	t := &x.tokens[i]
	if t.Flags&text.Emoji != 0 {
		return x.emojiSequence(t.Begin, t.End)
	}
	if t.Flags&text.Recovered == 0 {
		return t.Begin, t.End
	}
	first, last := x.typedWord(i)
	letters := 0
	for k := first; k <= last; k++ {
		letters += len(x.tokens[k].Folded)
	}
	begin, end = x.tokens[first].Begin, x.tokens[last].End
	if letters == end-begin {
		return t.Begin, t.End // letter by letter as it was typed
	}
	return begin, end
}

// typedWord returns the first and the last of the tokens that were typed as one word with a token.
func (x *Explainable) typedWord(i int) (first, last int) {
	joined := func(a, b *text.Token) bool {
		return a.Flags&b.Flags&text.Recovered != 0 && a.End == b.Begin && a.Flags&text.SentenceEnd == 0
	}
	first, last = i, i
	for first > 0 && joined(&x.tokens[first-1], &x.tokens[first]) {
		first--
	}
	for last < len(x.tokens)-1 && joined(&x.tokens[last], &x.tokens[last+1]) {
		last++
	}
	return first, last
}

// decisive returns the passage of the first of the windows that overlaps the strongest evidence: all evidence comes
// from these windows, but that of one may outweigh the evidence of another whose logit is larger.
func (x *Explainable) decisive(windows []Window, evidence []Evidence) Passage {
	passage := x.passage(windows[0])
	if len(evidence) == 0 {
		return passage
	}
	strongest := slices.MaxFunc(evidence, func(a, b Evidence) int { return cmp.Compare(a.Weight, b.Weight) })
	for i := 1; i < len(windows) && (strongest.End <= passage.Begin || passage.End <= strongest.Begin); i++ {
		passage = x.passage(windows[i])
	}
	return passage
}

// passage returns the place of a window: whole typed words, with the punctuation next to them. A window of all tokens,
// or of none, is the whole text without the white space around it.
func (x *Explainable) passage(w Window) Passage {
	if w.First == 0 && w.End == len(x.tokens) || w.First == w.End {
		left := strings.TrimLeftFunc(x.content, unicode.IsSpace)
		before := utf8.RuneCountInString(x.content[:len(x.content)-len(left)])
		points := utf8.RuneCountInString(strings.TrimRightFunc(left, unicode.IsSpace))
		if points == 0 {
			return Passage{}
		}
		return Passage{Begin: before, End: before + points}
	}
	first, _ := x.typedWord(w.First)
	_, last := x.typedWord(w.End - 1)
	p := Passage{Begin: x.tokens[first].Begin, End: x.tokens[last].End}
	// Punctuation before the window belongs to it from white space or the beginning of the text on; what follows the
	// window belongs to it up to white space. Scripts without spaces have only the latter.
	begin, low, high := p.Begin, 0, math.MaxInt
	if first == 0 {
		begin = 0
	} else {
		low = x.tokens[first-1].End
	}
	if last+1 < len(x.tokens) {
		high = x.tokens[last+1].Begin
	}
	at := 0
	for _, r := range x.content {
		space := unicode.IsSpace(r)
		if at >= p.End {
			if space || at >= high {
				break
			}
			p.End++
		} else if space && at >= low && at < p.Begin {
			begin = at + 1
		}
		at++
	}
	p.Begin = begin
	return p
}

// emojiSequence widens the place of an emoji to the whole sequence that is shown as one, such as a family: emoji that
// zero-width joiners join (Unicode Technical Standard 51).
func (x *Explainable) emojiSequence(begin, end int) (first, last int) {
	const joiner = '\u200d'
	if x.points == nil {
		x.points = []rune(x.content)
	}
	points := x.points
	for begin >= 2 && points[begin-1] == joiner && !unicode.IsSpace(points[begin-2]) {
		begin -= 2
	}
	for end+1 < len(points) && points[end] == joiner && !unicode.IsSpace(points[end+1]) {
		end += 2
	}
	return begin, end
}

// leaveOut finds what each token carries of a head's logit: the sum over the terms of its curve. See [Logits.Terms]. It
// returns the windows that these tokens stand in, the one that decides first.
func (x *Explainable) leaveOut(h int) []Window {
	s, m := x.scratch, x.model
	l, c := &s.logits, &m.header.Calibration[h]
	large := x.largest(s.large, h)
	small := x.largest(s.small, h)
	if len(l.LargeCNN) == 0 {
		x.leaveOutOfLinear(large, h, c.Alone.Large)
		x.leaveOutOfLinear(small, h, c.Alone.Small)
		if l.Length >= minSmallLength && l.Small[h] > l.Large[h] {
			return []Window{small, large}
		}
		return []Window{large, small}
	}
	curve := &c.Both
	window, sentence := 1.0, 0.0 // the weights of the large and of the small window's logit
	smallDecides := false
	if len(l.SmallCNN) > 0 {
		terms := l.LongTerms(h, curve)
		window, sentence = c.Long.Window, c.Long.Sentence
		if terms[0] >= terms[1] {
			window += c.Long.Max
		} else {
			sentence += c.Long.Max
		}
		smallDecides = sentence > 0 && (terms[1] > terms[0] || window == 0)
	}
	w := x.largestOfBoth(s.candidates[:len(s.large)], h, curve.Large, curve.CNN)
	x.leaveOutOfNetwork(w, h, window*curve.CNN)
	if h < NumCategories {
		large = w.Window
	}
	x.leaveOutOfLinear(large, h, window*curve.Large)
	windows := []Window{w.Window, large}
	if len(l.SmallCNN) == 0 {
		x.leaveOutOfLinear(small, h, curve.Small)
		return append(windows, small)
	}
	w = x.largestOfBoth(s.candidates[len(s.large):], h, curve.Large, curve.CNN)
	x.leaveOutOfNetwork(w, h, sentence*curve.CNN)
	x.leaveOutOfLinear(w.Window, h, sentence*curve.Large)
	if smallDecides {
		return slices.Insert(windows, 0, w.Window)
	}
	return append(windows, w.Window)
}

// leaveOutOfLinear adds what the tokens of a window carry of its logit by the linear model, times weight.
func (x *Explainable) leaveOutOfLinear(w Window, h int, weight float64) {
	prefix, scale := x.scratch.prefix, x.model.header.Calibration[h].Scale*weight
	sum := prefix[w.End][h] - prefix[w.First][h]
	features := prefix[w.End][featuresLane] - prefix[w.First][featuresLane]
	logit := float64(sum) / Norm(int(features))
	for i := w.First; i < w.End; i++ {
		own := prefix[i+1][h] - prefix[i][h]
		ownFeatures := prefix[i+1][featuresLane] - prefix[i][featuresLane]
		if ownFeatures == 0 {
			continue
		}
		carried := logit - float64(sum-own)/Norm(int(features-ownFeatures))
		if own <= 0 {
			// A token that does not speak for the head may still dilute what speaks against it. That is no evidence.
			carried = min(carried, 0)
		}
		x.carried[i] += carried * scale
	}
}

// leaveOutOfNetwork adds what the tokens of a window carry of its logit by the network, times weight.
func (x *Explainable) leaveOutOfNetwork(w *networkWindow, h int, weight float64) {
	keptBefore := x.scratch.keptBefore
	if w.occluded == nil {
		if x.left < w.End-w.First {
			return
		}
		x.left -= w.End - w.First
		x.occlude(w)
	}
	for i := w.First; i < w.End; i++ {
		// A token that is not kept makes no difference.
		if k := int(keptBefore[i] - keptBefore[w.First]); keptBefore[i+1] > keptBefore[i] && k < len(w.occluded) {
			x.carried[i] += float64(w.logits[h]-w.occluded[k][h]) * weight
		}
	}
}

// largest returns the first of the windows with the largest logit by the linear model.
func (x *Explainable) largest(windows []Window, h int) (best Window) {
	largest := math.Inf(-1)
	for _, w := range windows {
		var z [Heads]float64
		if x.model.linearLogits(&z, x.scratch.prefix, w); z[h] > largest {
			largest, best = z[h], w
		}
	}
	return best
}

// largestOfBoth returns the window where both stages together give the largest logit, among those that the network
// classified: [scratch.chooseWindow] left them the score -Inf. There is at least one.
func (x *Explainable) largestOfBoth(windows []candidate, h int, linear, network float64) (best *networkWindow) {
	largest := math.Inf(-1)
	for _, w := range windows {
		if !math.IsInf(w.score, -1) {
			continue
		}
		var z [Heads]float64
		x.model.linearLogits(&z, x.scratch.prefix, w.Window)
		n := x.classified(w.Window)
		if both := linear*z[h] + network*clampCNN(n.logits[h]); both > largest {
			largest, best = both, n
		}
	}
	return best
}

// classified returns the network's result for a window that it classified.
func (x *Explainable) classified(w Window) *networkWindow {
	all := x.scratch.classified
	return &all[slices.IndexFunc(all, func(n networkWindow) bool { return n.Window == w })]
}

// occlude has the network classify a window without each of its tokens.
func (x *Explainable) occlude(w *networkWindow) {
	s := x.scratch
	if x.occlusion == nil {
		x.occlusion = x.model.cnn.Occlude(&s.network, s.kept, s.keptHashes)
	}
	w.occluded = x.occlusion.Logits(int(s.keptBefore[w.First]), int(s.keptBefore[w.End]))
	if len(w.occluded) == 1 {
		// Nothing is left to classify: the only token carries all that the network says for the head.
		for h, logit := range w.logits {
			w.occluded[0][h] = min(logit, 0)
		}
	}
}
