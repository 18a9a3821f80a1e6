// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// Patterns returns all sentences that are made from patterns: [Neutral], [Captions] and [Stances].
func Patterns() []Example { return slices.Concat(Neutral(), Captions(), Stances()) }

// pattern makes an example that was put together from a pattern.
func pattern(text string, labels sourceLabels) Example {
	return madeOf(strings.ToUpper(text[:1])+text[1:], labels)
}

// madeOf makes an example of a text that a program put together. It has half the weight of the texts of the corpus.
func madeOf(text string, labels sourceLabels) Example {
	e := Example{Text: text, Source: "patterns", InCorpus: true}
	setCorpusLabels(labels, weightCorpus/2, &e)
	return e
}

// captionCount is the number of captions.
const captionCount = 6000

// The parts of captions: who, with what on, does what, where.
var (
	captionWho = strings.Split("woman,man,lady,boy,girl,child,couple of people,group of people,teenager,old man,"+
		"old woman,young man,young woman,Asian man,Asian woman,black man,black woman,white man,white woman,"+
		"African woman,Indian man,Indian woman,Arab man,Hispanic woman,Chinese man,Muslim woman,Jewish man,"+
		"bald man,bearded man,heavyset man,blond woman,brown-haired woman,dark-skinned man,tourist,worker,soldier,"+
		"policeman,nurse,dancer,farmer,chef,player,swimmer,priest,monk,nun,man in a wheelchair,blind man,crowd,"+
		"mother,father,grandmother,toddler,baby,family,bride,student,musician,cyclist,skater,vendor", ",")
	captionWith = strings.Split(",,,in a black dress,in a white shirt,in a red coat,in black,in a white hat,"+
		"with a brown bag,in a yellow vest,in a blue jacket,with a black umbrella,wearing a hijab,wearing a turban,"+
		"with tattoos,in a pink skirt,in a uniform,with a beard,"+
		"with a white cane,in a mask,with red hair,in a green sari,in shorts", ",")
	captionDoes = strings.Split("walks past,sits next to,looks at,feeds,paints,holds,photographs,stands in front of,"+
		"points at,leans on,runs after,carries,pulls,jumps over,hits,kicks,throws,shoots a picture of,cuts,"+
		"climbs onto,waits near,cleans,pushes,rides on,sells,fixes,watches,plays with", ",")
	captionWhat = strings.Split("the monkey cage,a monkey,an ape,a gorilla,a pig,two dogs,a black dog,a white horse,"+
		"a brown cow,a rat,a snake,the lion cage,an elephant,a goat,a donkey,a cockroach,a parrot,a ball,a drum,"+
		"a bicycle,a knife and an onion,a bench,a fountain,a fruit stand,a trash can,the garbage,a banana,a cake,"+
		"a bus,a tree,a statue,a fence,a boat,a gun in a museum,a sword,a balloon,a guitar,a camel,a dirty wall,"+
		"a pile of rags,a tiger,a fish,a wall of graffiti,a black car,a white van", ",")
	captionWhere = strings.Split(",,at the zoo,in the park,on the street,at the beach,at a market,in a kitchen,by the river,"+
		"in front of a church,near a mosque,at a wedding,in the snow,on a farm,at night,in a museum,on a stage,"+
		"at the station,in the jungle,in the desert,at a parade,in a cage at the fair,behind bars,in the mud", ",")
)

// Captions returns descriptions of pictures, in which people and animals and colours stand side by side and nothing is
// meant by it. They have half the weight of the texts of the corpus.
func Captions() []Example {
	r := rand.New(rand.NewPCG(1, 7))
	pick := func(from []string) string { return from[r.IntN(len(from))] }
	article := func(noun string) string {
		if strings.ContainsRune("aeioAEI", rune(noun[0])) {
			return "an " + noun
		}
		return "a " + noun
	}
	out := make([]Example, 0, captionCount)
	for range captionCount {
		parts := []string{article(pick(captionWho))}
		if r.IntN(8) == 0 {
			parts = append(parts, "and", article(pick(captionWho)))
		}
		does := pick(captionDoes)
		if r.IntN(6) == 0 {
			does = "who " + does
		}
		parts = append(parts, pick(captionWith), does, pick(captionWhat), pick(captionWhere))
		parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
		text := strings.Join(parts, " ")
		if r.IntN(4) > 0 {
			text += "."
		}
		if r.IntN(6) == 0 {
			text = strings.ToLower(text)
		}
		out = append(out, pattern(text, sourceLabels{}))
	}
	return out
}

// What is said of groups, and what is refused. %s is a group, %i an insult.
var (
	stanceHate = []string{
		"%s are %i", "I despise %s", "I really hate %s", "honestly %s are %i, all of them", "can't stand %s",
		"everybody should admit that %s are %i", "no offence, but %s are %i", "why are %s so %i?",
		"not that I hate %s, they are just %i", "I'm not saying it twice: %s are %i", "%s disgust me",
		"we all know how %i %s are", "keep %s out, they are %i",
	}
	stanceRefused = []string{
		"nobody should ever say that %s are %i", "no one may call %s %i here", "I don't hate %s", "I don't despise %s at all",
		"it is wrong to say %s are %i", "please stop saying that %s are %i", "whoever says %s are %i is wrong",
		"my uncle said %s are %i and I left the room", "%s are not %i, and I'm tired of hearing it",
		"who taught you that %s are %i? that's a lie", "I used to think %s were %i. I was wrong",
		"she was called %i because of some prejudice about %s", "I hate how people talk about %s",
		"we remove posts that call %s %i", "I despise people who say that %s are %i",
	}
	stanceInsults = strings.Fields("lazy inferior dirty stupid criminal disgusting worthless dangerous primitive vermin " +
		"animals thieves liars parasites scum")
)

// Stances returns sentences about groups of people in two kinds: contempt that is declared, and the same contempt
// denied, reported or refused. They have half the weight of the texts of the corpus.
func Stances() []Example {
	r := rand.New(rand.NewPCG(1, 8))
	var out []Example
	for _, group := range slices.Concat(interchangeable[0], moreMany) {
		for _, kind := range []struct {
			patterns []string
			labels   sourceLabels
		}{
			{stanceHate, sourceLabels{"hate": 1}},
			{stanceRefused, sourceLabels{}},
		} {
			for _, i := range r.Perm(len(kind.patterns))[:9] {
				text := strings.ReplaceAll(kind.patterns[i], "%i", stanceInsults[r.IntN(len(stanceInsults))])
				text = strings.Replace(text, "%s", capital(group, interchangeable[0]), 1)
				text += []string{"", ".", "!", "."}[r.IntN(4)]
				e := pattern(text, kind.labels)
				if r.IntN(4) == 0 {
					e.Text = strings.ToLower(e.Text)
				}
				out = append(out, e)
			}
		}
	}
	return out
}
