// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"slices"
	"strings"
)

// Neutral and friendly sentences about groups of people, for training. The report of [Evaluate] uses others.
var (
	aboutMany = []string{
		"Many %s live in our town.", "%s celebrate their holidays like everybody else.", "The %s I know are kind.",
		"I work with two %s.", "Some %s are doctors, some are bakers.", "%s are people.", "%s deserve respect.",
		"We invited the %s from next door.", "%s have lived here for centuries.", "Are there many %s in your class?",
		"%s and their neighbors cleaned the park.", "A film about %s won the prize.", "The law protects %s.",
		"%s can vote here now.", "There is a club for %s on Main Street.", "%s pay taxes too.",
		"Nobody should be rude to %s.", "I learned a lot from %s.", "%s get up early and go to work.",
		"The survey asked 400 %s about the bus.",
	}
	aboutOne = []string{
		"The %s couple upstairs had a baby.", "My dentist is %s.", "She is %s and proud of it.",
		"Our %s neighbors brought soup.", "%s people eat, pray and sleep like the rest of us.",
		"I met a %s woman at the bus stop.", "Two %s men opened a cafe.", "The mayor is %s.",
		"A %s teacher won the award.", "He grew up in a %s family.", "My best friend is %s.",
		"I am %s, ask me anything.", "%s history month starts today.", "The %s community center needs volunteers.",
		"%s women run the market.", "%s athletes took three medals.", "Is the new guy %s?",
		"The %s sailors sang all night.", "%s men and women served in that war.", "Her grandmother was %s.",
	}
	moreMany = []string{
		"black people", "white people", "gay people", "trans people", "trans women", "trans men", "disabled people",
		"autistic people", "deaf people", "blind people", "old people", "young people", "men", "Native Americans",
		"Asian people", "brown people", "wheelchair users", "people with HIV", "people with schizophrenia",
		"asylum seekers",
	}
)

// Neutral returns harmless sentences about groups of people, made from the same patterns for every group, so that
// naming a group is no evidence. They have half the weight of the texts of the corpus.
func Neutral() []Example {
	var out []Example
	add := func(pattern, group string) {
		text := strings.Replace(pattern, "%s", group, 1)
		e := Example{Text: strings.ToUpper(text[:1]) + text[1:], Source: "patterns", InCorpus: true}
		setCorpusLabels(sourceLabels{}, weightCorpus/2, &e)
		out = append(out, e)
	}
	for _, group := range slices.Concat(interchangeable[0], moreMany) {
		for _, pattern := range aboutMany {
			add(pattern, capital(group, interchangeable[0]))
		}
	}
	for _, group := range interchangeable[1] {
		for _, pattern := range aboutOne {
			add(pattern, capital(group, interchangeable[1]))
		}
	}
	return out
}

// capital capitalises a group if it is a name, such as that of a nation or religion.
func capital(group string, names []string) string {
	noNames := strings.Fields(`
		atheists gays lesbians bisexuals immigrants migrants refugees foreigners women feminists pensioners veterans
		amputees albinos dwarfs gay lesbian bisexual trans transgender queer black white disabled autistic deaf blind
		indigenous immigrant refugee elderly`)
	if !slices.Contains(names, group) || slices.Contains(noNames, group) {
		return group
	}
	return strings.ToUpper(group[:1]) + group[1:]
}
