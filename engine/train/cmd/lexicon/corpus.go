// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"path/filepath"

	"github.com/caddy-moderation/caddy-moderation/engine/themes/lexicon"
)

// running lists the running text that words are counted in, below the data directory. Only counts leave the builder, no
// text. Sets without a stated licence, and the sets on which themes are measured, are left out.
var running = []string{
	"moderation/clean_dialogue_sgd.jsonl.gz",
	"moderation/clean_instructions_qa.jsonl.gz",
	"moderation/clean_trivia_questions.jsonl.gz",
	"moderation/clean_tweets.jsonl.gz",
	"moderation/clean_wikipedia_sentences.jsonl.gz",
	"moderation/civil_comments_semeval_tsd.jsonl.gz",
	"moderation/civil_comments_toxic_spans.jsonl.gz",
	"moderation/davidson2017.jsonl.gz",
	"moderation/edos_sexism.jsonl.gz",
	"moderation/gab_hate_corpus.jsonl.gz",
	"moderation/goemotions_reddit.jsonl.gz",
	"moderation/hatexplain_train.jsonl.gz",
	"moderation/jigsaw_wiki_binary.jsonl.gz",
	"moderation/jigsaw_wiki_binary_b.jsonl.gz",
	"moderation/jigsaw_wiki_binary_c.jsonl.gz",
	"moderation/jigsaw_wiki_multilabel_a.jsonl.gz",
	"moderation/paradetox.jsonl.gz",
	"moderation/ruddit.jsonl.gz",
	"moderation/sms_spam.jsonl.gz",
	"moderation/social_media_extremism.jsonl.gz",
	"moderation/stormfront.jsonl.gz",
	"moderation/suicide_detection_reddit.jsonl.gz",
	"moderation/tweeteval_aux_unmoderated.jsonl.gz",
	"authored/abuse2.jsonl",
	"authored/contrast.jsonl",
	"authored/everyday.jsonl",
	"authored/harassment.jsonl",
	"authored/hate.jsonl",
	"authored/identity.jsonl",
	"authored/long.jsonl",
	"authored/posts.jsonl",
	"authored/self_harm.jsonl",
	"authored/sexual.jsonl",
	"authored/violence.jsonl",
	"authored/violence2.jsonl",
	"authored/voices.jsonl",
}

// minSeen is how often a word that is not in the WordNet must occur to become a term.
const minSeen = 15

// eachText calls do with the words of each text.
func eachText(data string, do func(words []string)) error {
	n := newNormaliser()
	for _, name := range running {
		seen := make(map[string]bool)
		err := eachRow(filepath.Join(data, name), func(row []byte) error {
			var r struct{ Text string }
			if err := json.Unmarshal(row, &r); err != nil {
				return err
			}
			if !seen[r.Text] {
				seen[r.Text] = true
				do(n.words(r.Text))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isWord reports whether a word that the WordNet does not know may become a term.
func isWord(w string) bool {
	if len(w) < 3 || len(w) > 24 || lexicon.IsStop([]byte(w)) {
		return false
	}
	letters := 0
	for _, c := range []byte(w) {
		if c >= 'a' && c <= 'z' {
			letters++
		}
	}
	return letters == len(w)
}
