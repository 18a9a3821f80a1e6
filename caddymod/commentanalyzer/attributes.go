// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package commentanalyzer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// off is the configuration of an attribute without a score.
const off = "off"

// scoredAs maps names of the Perspective API to scores of the classifier, where it is not the score of the same name
// or of the name without _EXPERIMENTAL.
//
// A name stands here only if the score was trained on what the name means. Names without a score are in
// [unscoredNames].
var scoredAs = map[string]engine.Attribute{
	// An old name of the experimental toxicity.
	"TOXICITY_FAST": engine.Toxicity,
	// The head for PROFANITY is trained on the labels "obscene" (Jigsaw) and "Profane/Obscene" (Civil Comments).
	"OBSCENE": engine.Profanity,
	// "Intending to provoke or inflame" is a part of the annotators' definition of toxic: likely to make people leave.
	"INFLAMMATORY": engine.Toxicity,
	// Insults with a certain target. The score ignores the target, because the model does not see who wrote what.
	"ATTACK_ON_AUTHOR":    engine.Insult,
	"ATTACK_ON_COMMENTER": engine.Insult,
	// What the moderators of one newspaper would reject. The score for toxicity is the nearest.
	"LIKELY_TO_REJECT": engine.Toxicity,
}

// unscoredNames are the other names that the Perspective API has or had. No score would answer them honestly.
var unscoredNames = []string{
	"ATTACK_ON_PUBLISHER", "FLIRTATION", "INCOHERENT", "OFF_TOPIC", "UNSUBSTANTIAL",
	// Bridging, and what was called constructive before.
	"AFFINITY_EXPERIMENTAL", "COMPASSION_EXPERIMENTAL", "CONSTRUCTIVE_EXPERIMENTAL", "CURIOSITY_EXPERIMENTAL",
	"NUANCE_EXPERIMENTAL", "PERSONAL_STORY_EXPERIMENTAL", "REASONING_EXPERIMENTAL", "RESPECT_EXPERIMENTAL",
	// Persuasion. Programs that rank feeds ask for them beside toxicity.
	"ALIENATION_EXPERIMENTAL", "FEARMONGERING_EXPERIMENTAL", "GENERALIZATION_EXPERIMENTAL",
	"MORAL_OUTRAGE_EXPERIMENTAL", "POWER_APPEAL_EXPERIMENTAL", "SCAPEGOATING_EXPERIMENTAL",
}

// attributeTable holds the names that may be asked for, each with the index of its score or [unscored].
type attributeTable map[string]int

// unscored stands for a known name without a score.
const unscored = -1

// newAttributeTable returns the table of the defaults and of the configured names.
func newAttributeTable(configured map[string]string) (attributeTable, error) {
	table := attributeTable{}
	for i := range engine.NumAttributes {
		name := engine.Attribute(i).String()
		table[name] = i
		table[name+"_EXPERIMENTAL"] = i
	}
	for name, attribute := range scoredAs {
		table[name] = int(attribute)
	}
	for _, name := range unscoredNames {
		table[name] = unscored
	}
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		if !isName(name) {
			return nil, fmt.Errorf("attribute %q is not 1 to %d letters, digits and '_', '-', '.' or '/'",
				name, maxName)
		}
		if configured[name] == off {
			table[name] = unscored
			continue
		}
		attribute, err := engine.ParseAttribute(configured[name])
		if err != nil {
			return nil, fmt.Errorf("attribute %s is scored as %q; it must be %s or %s",
				name, configured[name], attributeNames(), off)
		}
		table[name] = int(attribute)
	}
	return table, nil
}

// attributeNames lists the names of all scores.
func attributeNames() string {
	names := make([]string, engine.NumAttributes)
	for i := range names {
		names[i] = engine.Attribute(i).String()
	}
	return strings.Join(names, ", ")
}
