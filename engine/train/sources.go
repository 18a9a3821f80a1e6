// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// The heads, in the order of [model.HeadNames].
const (
	hate = iota
	harassment
	selfHarm
	sexual
	violence
	toxicity
	severe
	identity
	insult
	profanity
	threat
	explicit
	spam

	numHeads = iota
)

// Where the constants above are not as many as the heads of package model, this assignment does not compile. That
// package's documentation says how to add a head.
var _ [numHeads]struct{} = [model.Heads]struct{}{}

// sourceLabels are the labels of a row, by the names of its source.
type sourceLabels map[string]float64

func (n sourceLabels) has(key string) bool { _, ok := n[key]; return ok }

// any reports whether any label whose name starts with prefix is yes.
func (n sourceLabels) any(prefix string) bool {
	for k, v := range n {
		if v >= 0.5 && strings.HasPrefix(k, prefix) {
			return true
		}
	}
	return false
}

// source says how the labels of a public source map to the heads.
type source struct {
	name string
	// limit is the maximum number of rows to take, spread evenly over the file. 0 takes all.
	limit int
	label func(n sourceLabels, e *Example)
}

// set labels heads.
func (e *Example) set(value, weight float32, heads ...int) {
	for _, h := range heads {
		e.Labels[h] = Label{Value: value, Weight: weight}
	}
}

// benign labels all heads as no.
func (e *Example) benign(weight float32) {
	for h := range e.Labels {
		e.Labels[h] = Label{Weight: weight}
	}
}

// notToxic labels the heads as no that a crowd would call toxic. Self-harm is not among them.
func (e *Example) notToxic(weight float32) {
	e.set(0, weight, hate, harassment, violence, sexual)
	e.set(0, weight, toxicity, severe, identity, insult, profanity, threat, explicit)
}

// clamp cuts a label to the range from 0 to 1.
func clamp(v float64) float32 { return float32(min(max(v, 0), 1)) }

// clean maps sources of everyday harmless text.
func clean(weight float32) func(sourceLabels, *Example) {
	return func(_ sourceLabels, e *Example) { e.benign(weight) }
}

// suicideBoard maps sources that label by subreddit. A post on r/SuicideWatch is a strong hint and no more.
func suicideBoard(key string, yes, no, weight float32) func(sourceLabels, *Example) {
	return func(n sourceLabels, e *Example) {
		if n[key] >= 0.5 {
			e.set(yes, weight, selfHarm)
		} else {
			e.set(no, weight, selfHarm)
		}
	}
}

// sources maps every public source that training uses. A label is mapped only where it really means the head. The
// weights follow from a review of 7,254 rows.
var sources = []source{
	{name: "jigsaw_wiki_multilabel_a", label: jigsaw},
	{name: "jigsaw_wiki_multilabel_b", label: jigsaw},
	{name: "jigsaw_wiki_binary", label: jigsawBinary},
	{name: "jigsaw_wiki_binary_b", label: jigsawBinary},
	{name: "jigsaw_wiki_binary_c", label: jigsawBinary},
	{name: "jigsaw_sentences_detox", label: func(n sourceLabels, e *Example) { // silver labels
		if n["toxic"] >= 0.5 {
			e.set(1, 0.4, toxicity)
		} else {
			e.notToxic(0.3)
		}
	}},
	{name: "paradetox", label: func(n sourceLabels, e *Example) { // swearing without a target counts as toxic here
		if n["toxic"] >= 0.5 {
			e.set(1, 0.5, toxicity)
		} else {
			e.notToxic(0.4)
		}
	}},
	{name: "civil_comments_toxic_spans", label: func(n sourceLabels, e *Example) {
		e.set(1, 0.3, toxicity)
		for _, m := range []struct {
			key  string
			head int
		}{{"Insult", insult}, {"Identity based Attack", identity}, {"Profane/Obscene", profanity}, {"Threat", threat}} {
			switch v := n[m.key]; {
			case v >= 0.3:
				e.set(1, 0.5, m.head)
			case v == 0 && m.head != insult:
				e.set(0, 0.3, m.head)
			}
		}
	}},
	{name: "civil_comments_semeval_tsd", label: func(n sourceLabels, e *Example) {
		if n["toxic_span_chars"] > 0 {
			e.set(1, 0.3, toxicity)
		}
	}},
	{name: "davidson2017", label: func(n sourceLabels, e *Example) { // dialect words count as offence here
		switch {
		case n["neither"] >= 0.5:
			e.set(0, 0.2, hate, harassment, toxicity, identity)
		case n["hate_speech"] >= 0.6:
			e.set(1, 0.2, hate, identity)
			e.set(1, 0.3, toxicity)
		case n["offensive_language"] >= 0.6:
			e.set(0.8, 0.1, toxicity)
			e.set(1, 0.1, profanity)
		}
	}},
	{name: "stormfront", label: func(n sourceLabels, e *Example) { e.set(clamp(n["hate"]), 0.3, hate, identity) }},
	{name: "implicit_hate", label: func(n sourceLabels, e *Example) {
		switch {
		case n["explicit_hate"] >= 0.5:
			e.set(1, 0.4, hate, identity)
		case n["implicit_hate"] >= 0.5:
			e.set(0.9, 0.25, hate, identity)
		case n["not_hate"] >= 0.5:
			e.set(0, 0.25, hate, identity)
		}
		if n["implicit:threatening"] >= 0.5 {
			e.set(0.7, 0.1, threat)
		}
	}},
	{name: "gab_hate_corpus", label: func(n sourceLabels, e *Example) {
		e.set(clamp(n["hd"]), 0.3, hate, identity)
		if n["cv"] >= 0.5 {
			e.set(1, 0.5, violence, threat)
		}
		if n["vo"] >= 0.5 {
			e.set(1, 0.3, toxicity)
		}
	}},
	{name: "edos_sexism", label: func(n sourceLabels, e *Example) { // much ordinary dating talk
		if n["sexist"] < 0.5 {
			e.set(0, 0.15, hate, identity)
			return
		}
		e.set(0.9, 0.15, hate, identity)
		if n.any("cat:1.") {
			e.set(1, 0.3, hate)
			e.set(0.9, 0.3, violence)
			e.set(0.7, 0.2, threat)
		}
		if n.any("vec:2.2") || n.any("vec:2.3") {
			e.set(1, 0.3, hate, identity)
			e.set(1, 0.2, toxicity)
		}
	}},
	{name: "hatexplain_train", label: hatexplain},
	{name: "hatexplain_dev", label: hatexplain},
	{name: "mlma_en", label: func(n sourceLabels, e *Example) {
		if n["normal"] >= 0.5 && n["hateful"] < 0.5 {
			e.set(0, 0.1, hate, identity)
		}
	}},
	{name: "mlma_fr_ar", label: func(n sourceLabels, e *Example) {
		switch {
		case n["hateful"] >= 0.5:
			e.set(0.8, 0.15, hate, toxicity)
		case n["normal"] >= 0.5:
			e.set(0, 0.2, hate, harassment, sexual, violence, selfHarm, toxicity)
		}
	}},
	// This one has much griping about television, and criticism of religion.
	{name: "waseem_twitter_text", label: func(n sourceLabels, e *Example) {
		if n["none"] >= 0.5 {
			e.set(0, 0.1, hate, identity)
		} else {
			e.set(0.7, 0.08, hate, identity)
		}
	}},
	{name: "kaggle_insults", label: func(n sourceLabels, e *Example) {
		if n["Insult"] >= 0.5 {
			e.set(1, 0.7, insult, toxicity)
			e.set(1, 0.6, harassment)
		} else {
			e.set(0, 0.5, insult, harassment)
		}
	}},
	{name: "ruddit", label: func(n sourceLabels, e *Example) {
		switch v := n["offensiveness_score"]; {
		case v > 0.4:
			e.set(1, 0.5, toxicity)
		case v < -0.2:
			e.notToxic(0.3)
		}
	}},
	{name: "surge_toxicity", label: func(n sourceLabels, e *Example) {
		if n["toxic"] >= 0.5 {
			e.set(1, 1, toxicity)
		} else {
			e.notToxic(0.7)
		}
	}},
	{name: "convabuse", label: func(n sourceLabels, e *Example) {
		switch {
		case n["sex_harassment"] >= 0.5:
			e.set(1, 1, explicit, toxicity)
			e.set(1, 0.7, sexual)
		case n["abuse"] >= 0.5:
			e.set(1, 0.7, toxicity)
		case n["abuse"] == 0:
			e.notToxic(0.5)
			e.set(0, 0.5, spam)
		}
	}},
	{name: "conda_dota", label: func(n sourceLabels, e *Example) {
		switch {
		case n["explicit_toxicity"] >= 0.5:
			e.set(1, 0.3, toxicity)
			e.set(0.9, 0.15, harassment)
		case n["implicit_toxicity"] < 0.5:
			e.set(0, 0.2, toxicity, harassment, hate, violence, sexual, selfHarm)
		}
	}},
	{name: "diasafety", label: func(n sourceLabels, e *Example) {
		if n.has("Offending User") {
			e.set(clamp(n["Offending User"]), 0.25, harassment)
		}
		if n.has("Biased Opinion") {
			e.set(clamp(n["Biased Opinion"])*0.8, 0.1, hate)
		}
	}},
	{name: "toxic_tweets_kaggle_noisy", limit: 10_000, label: func(n sourceLabels, e *Example) {
		e.set(clamp(n["Toxicity"])*0.9, 0.08, toxicity)
	}},
	{name: "olid", label: func(n sourceLabels, e *Example) {
		if n["offensive"] >= 0.5 {
			e.set(1, 0.25, toxicity)
		} else {
			e.set(0, 0.25, toxicity, severe, identity, insult, threat, explicit)
			e.set(0, 0.1, hate, harassment, violence, sexual)
		}
	}},
	{name: "hatemoji_build", label: func(n sourceLabels, e *Example) {
		e.set(clamp(n["hateful"]), 0.5, hate, identity)
		if n.any("type:threatening") {
			e.set(1, 0.5, violence)
			e.set(1, 0.4, threat)
		}
	}},
	{name: "suicide_detection_reddit", label: suicideBoard("suicide", 0.8, 0, 0.3)},
	{name: "sdcnl", label: suicideBoard("is_suicide", 0.75, 0.15, 0.2)},
	{name: "suicidewatch_vs_depression", label: suicideBoard("is_suicide", 0.75, 0.15, 0.2)},
	{name: "twitter_suicidal_intention", label: suicideBoard("intention", 0.4, 0, 0.1)}, // 11 of 44 were confirmed
	{name: "social_media_extremism", label: func(n sourceLabels, e *Example) { // corrupted by word swaps
		if n["extremist"] >= 0.5 {
			e.set(0.7, 0.08, violence)
		} else {
			e.set(0, 0.08, violence)
		}
	}},
	{name: "sms_spam", label: func(n sourceLabels, e *Example) {
		if n["spam"] >= 0.5 {
			e.set(1, 1, spam)
			e.set(0, 0.5, hate, harassment, selfHarm, violence)
		} else {
			e.benign(0.5)
		}
	}},
	{name: "goemotions_reddit", label: func(n sourceLabels, e *Example) {
		if n["anger"]+n["annoyance"]+n["disgust"]+n["disapproval"]+n["sadness"]+n["desire"]+n["fear"] > 0 {
			return
		}
		e.set(0, 0.4, hate, harassment, selfHarm, sexual, violence, threat, identity, severe, spam)
		e.set(0, 0.2, toxicity, insult)
	}},
	{name: "clean_tweets", limit: 40_000, label: func(_ sourceLabels, e *Example) { // swearing may be left in
		e.benign(0.5)
		e.set(0, 0.2, profanity)
	}},
	{name: "clean_dialogue_sgd", limit: 10_000, label: clean(0.3)},
	{name: "clean_intents_clinc", limit: 8_000, label: clean(0.3)},
	{name: "clean_intents_banking77", limit: 4_000, label: clean(0.3)},
	{name: "clean_wikipedia_sentences", limit: 25_000, label: clean(0.4)},
	{name: "clean_trivia_questions", limit: 15_000, label: clean(0.4)},
	{name: "clean_instructions_qa", limit: 20_000, label: clean(0.4)},
}

func jigsaw(n sourceLabels, e *Example) {
	if n["toxic"] < 0.5 {
		e.notToxic(0.6)
		return
	}
	for key, head := range map[string]int{
		"toxic": toxicity, "severe_toxic": severe, "identity_hate": identity, "insult": insult, "obscene": profanity,
		"threat": threat,
	} {
		e.set(clamp(n[key]), 1, head)
	}
	if n["identity_hate"] >= 0.5 {
		e.set(1, 0.4, hate)
	}
	if n["insult"] >= 0.5 {
		e.set(1, 0.3, harassment)
	}
	if n["threat"] >= 0.5 {
		e.set(1, 0.5, violence)
	}
}

func jigsawBinary(n sourceLabels, e *Example) {
	if n["toxic"] >= 0.5 {
		e.set(1, 1, toxicity)
		return
	}
	e.notToxic(0.5)
}

func hatexplain(n sourceLabels, e *Example) {
	switch {
	case n["label:hatespeech"] >= 0.5, n["label:hate"] >= 0.5:
		e.set(1, 0.2, hate, identity)
		e.set(1, 0.3, toxicity)
	case n["label:offensive"] >= 0.5:
		e.set(1, 0.2, toxicity)
	case n["label:normal"] >= 0.5:
		e.set(0, 0.12, hate, identity)
	}
}

// setCorpusLabels sets the labels of a row of the corpus: those of the five categories, which the row has, and those
// of the attributes that follow from them.
func setCorpusLabels(n sourceLabels, weight float32, e *Example) {
	harmful := false
	for h, name := range categoryNames {
		v := clamp(n[name])
		e.set(v, weight, h)
		harmful = harmful || v >= 0.5
	}
	const light = 0.3
	e.set(clamp(n["hate"]), light, identity)
	if !harmful {
		e.set(0, light, toxicity, severe, identity, insult, threat, explicit)
		return
	}
	if n["hate"] >= 0.5 || n["harassment"] >= 0.5 {
		e.set(1, light, toxicity)
	}
	if n["sexual"] >= 0.5 {
		e.set(1, 1, explicit)
	} else {
		e.set(0, light, explicit)
	}
	if n["violence"] >= 0.5 && n["harassment"] >= 0.5 {
		e.set(1, 1, threat)
	} else if n["violence"] < 0.5 {
		e.set(0, light, threat)
	}
}
