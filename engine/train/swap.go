// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"math/rand/v2"
	"regexp"
	"strings"
)

// interchangeable are words for groups of people that can replace each other in a sentence.
var interchangeable = [][]string{
	strings.Fields(`
		muslims jews christians hindus sikhs catholics buddhists mormons atheists gays lesbians bisexuals immigrants
		migrants refugees foreigners mexicans nigerians somalis pakistanis indians arabs africans asians latinos
		russians turks kurds romanians albanians afghans syrians iraqis iranians filipinos ukrainians palestinians
		israelis americans germans italians dalits gypsies koreans kenyans ethiopians haitians jamaicans bangladeshis
		tamils hungarians serbs greeks brazilians colombians venezuelans women feminists pensioners veterans amputees
		albinos dwarfs`),
	strings.Fields(`
		muslim jewish christian hindu sikh catholic buddhist mormon gay lesbian bisexual trans transgender queer black
		white asian african arab latino mexican nigerian somali pakistani indian chinese turkish russian polish
		romanian disabled autistic deaf blind roma indigenous filipino ukrainian palestinian israeli haitian jamaican
		korean vietnamese thai japanese iranian syrian afghan kurdish bangladeshi tamil kenyan ethiopian ghanaian
		brazilian colombian venezuelan irish italian german french greek immigrant refugee dalit elderly american
		egyptian moroccan`),
}

var wordPattern = regexp.MustCompile(`[A-Za-z]+`)

// Swap returns copies of a share of the examples of the corpus that name a group of people, hateful or not, with
// another group in its place, so that the model learns what is said and not of whom. Copies keep the labels at half
// the weight.
func Swap(examples []Example, share float64, seed uint64) []Example {
	r := rand.New(rand.NewPCG(seed, 6))
	set := map[string][]string{}
	for _, words := range interchangeable {
		for _, w := range words {
			set[w] = words
		}
	}
	var out []Example
	for _, e := range examples {
		if !e.InCorpus || r.Float64() >= share {
			continue
		}
		chosen := map[string]string{}
		text := wordPattern.ReplaceAllStringFunc(e.Text, func(word string) string {
			low := strings.ToLower(word)
			words := set[low]
			if words == nil {
				return word
			}
			if chosen[low] == "" {
				chosen[low] = words[r.IntN(len(words))]
			}
			other := chosen[low]
			switch word {
			case strings.ToUpper(low):
				return strings.ToUpper(other)
			case low:
				return other
			}
			return strings.ToUpper(other[:1]) + other[1:]
		})
		if text == e.Text {
			continue
		}
		e.Text = text
		for h := range e.Labels {
			e.Labels[h].Weight /= 2
		}
		out = append(out, e)
	}
	return out
}
