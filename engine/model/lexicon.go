// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model

import "strings"

// wordClass groups words that play the same part in a sentence, so that what the training learns of "kill you" also
// holds for "stab u", and what it learns of one group of people holds for all.
type wordClass uint8

const (
	noClass wordClass = iota
	classI
	classYou
	classThey
	classFuture
	classMust
	classHarm
	classDie
	classHate
	classLove
	classGroup
	classSlur
	classInsult
	classFilth
	classSex
	classAll
	classBe
	classNot
	classSelf
	classWeapon
	classAway
	classHelp
	classReport
	classPeople
	classLike
	classFamily
	classSwear
	numClasses
)

// isPerson reports whether a class names who is spoken of. The words after it in the sentence are paired with it.
func (c wordClass) isPerson() bool {
	switch c {
	case classI, classYou, classThey, classGroup, classSlur, classPeople, classFamily:
		return true
	}
	return false
}

// lexicon lists the folded words of each class. A word that several classes list belongs to the first of them.
var lexicon = [numClasses]string{
	classI:      "i im ive id ill me my mine myself we us our ours were weve",
	classYou:    "you u your ur youre yours ya yall yourself yourselves youve youll youd yous thee thy yo",
	classThey:   "he she him her his hers himself herself they them their theirs theyre themselves shes hes theyll theyve hell shell it its",
	classFuture: "will gonna going shall wanna want wants wanted wish hope hoping plan planning about would could ima imma finna tryna",
	classMust:   "should must need needs deserve deserves deserved gotta ought better lets let please make",
	classHarm: "kill killing kills killed murder murdering murdered stab stabbed stabbing shoot shooting shot beat beating punch punching " +
		"punched kick kicked kicking slap slapped smash smashed strangle choke choked hang hanged hanging lynch lynched burn burned burnt " +
		"burning drown drowned poison poisoned bomb bombed bombing gas gassed execute executed behead beheaded slaughter slaughtered " +
		"massacre exterminate exterminated eradicate torture tortured skin gut hurt hurting harm attack attacked destroy crush break broke " +
		"snap cut slit slice bash bashed batter maim cripple shank knife jump jumped rape raped raping bury buried dismember unalive " +
		"decapitate throttle whip flog stone run smack deck clobber shiv torch",
	classDie: "die dies died dead death dying suicide suicidal kys kms corpse grave coffin funeral noose overdose od hanged deceased perish end",
	classHate: "hate hates hated hating despise loathe detest disgust disgusts disgusting disgusted vile revolting repulsive repugnant sickening " +
		"sick cant stand",
	classLove: "love loves loved loving proud respect support thank thanks happy beautiful lovely wonderful kind welcome celebrate celebrating " +
		"admire grateful brilliant great good nice amazing gorgeous friend friends",
	classGroup: "black blacks white whites asian asians african africans arab arabs indian indians pakistani pakistanis chinese japanese korean " +
		"koreans mexican mexicans latino latinos latina latinas hispanic hispanics jew jews jewish muslim muslims islam islamic christian " +
		"christians catholic catholics protestant protestants hindu hindus sikh sikhs buddhist buddhists mormon mormons atheist atheists " +
		"gay gays lesbian lesbians bisexual bisexuals trans transgender transsexual queer queers lgbt lgbtq homosexual homosexuals straight " +
		"woman women female females man men male males girl girls boys boy feminist feminists immigrant immigrants migrant migrants refugee " +
		"refugees foreigner foreigners asylum roma romani gypsy gypsies traveller travellers dalit dalits polish poles russian russians " +
		"ukrainian ukrainians turk turks turkish kurd kurds iranian iranians iraqi iraqis syrian syrians afghan afghans somali somalis " +
		"nigerian nigerians kenyan ghanaian ethiopian irish italian italians french german germans spanish portuguese brazilian filipino " +
		"filipinos vietnamese thai indonesian malaysian bangladeshi bengali tamil tamils sinhalese israeli israelis palestinian palestinians " +
		"american americans british english native indigenous aboriginal aboriginals maori inuit disabled autistic autism deaf blind " +
		"wheelchair schizophrenic bipolar epileptic dwarf dwarfs elderly old pensioners boomers veterans fat obese hiv aids albino cripple " +
		"cripples downs disability nonbinary intersex asexual pansexual ethnic minorities minority race races caste brahmin shia sunni " +
		"orthodox jehovah quaker zionist zionists eastern european europeans romanian romanians bulgarian albanian albanians greek greeks " +
		"hungarian serb serbs croat croats bosnian bosnians",
	classSlur: "nigger niggers nigga niggas niggaz faggot faggots fag fags dyke dykes tranny trannies shemale kike kikes chink chinks gook gooks " +
		"spic spics wetback wetbacks beaner beaners paki pakis raghead ragheads towelhead towelheads sandnigger coon coons jigaboo " +
		"darkie darkies negro negroes redskin squaw savages retard retards retarded spastic spaz mongoloid mong cripple midget midgets " +
		"whore whores slut sluts bitch bitches cunt cunts hoe hoes thot thots gyppo pikey pikeys wog wogs abo abos chinaman zipperhead " +
		"honky cracker gringo polack wop dago kraut heeb hymie goy goyim mudslime mudslimes muzzie muzzies muzrat homo homos poof " +
		"poofter poofters troon troons femoid femoids foid foids libtard libtards feminazi feminazis shitskin shitskins groid groids " +
		"sheboon kaffir kaffirs curry",
	classInsult: "idiot idiots idiotic moron morons moronic stupid dumb dumbass fool fools foolish loser losers pathetic worthless useless ugly " +
		"fat disgrace embarrassment clown clowns joke imbecile imbeciles cretin cretins dimwit halfwit twat twats prick pricks wanker " +
		"wankers bellend tosser tossers knob dickhead dickheads asshole assholes arsehole arseholes bastard bastards jerk jerks creep " +
		"creepy freak freaks weirdo weirdos coward cowards liar liars fraud lazy ignorant braindead brainless trash failure nobody " +
		"incompetent hideous dense muppet numpty pillock plonker pig pigs cow hag snowflake simp incel incels virgin nonce noob scrub " +
		"delusional psycho crazy lunatic insane mental dirty smelly gross nasty",
	classFilth: "scum scumbag vermin rat rats cockroach cockroaches roach roaches parasite parasites leech leeches disease diseased plague cancer filth " +
		"filthy subhuman subhumans animal animals monkey monkeys ape apes dog dogs beast beasts savage infest infestation invade invaders " +
		"invasion infesting swarm swarms inferior criminals rapists terrorists terrorist thieves thugs thug savages garbage rubbish dirt " +
		"pest pests locusts maggot maggots virus degenerate degenerates mutants abomination evil unnatural",
	classSex: "sex sexy fuck fucking fucked suck sucking lick licking cock cocks dick dicks pussy pussies tits titties boobs ass naked nude nudes " +
		"horny cum cumming orgasm blowjob anal porn erotic kinky fetish masturbate masturbating moan moaning nipples nipple thrust inside " +
		"wet hard throbbing penis vagina clit dildo vibrator threesome escort escorts hookup bdsm dom sub spank spanking lingerie panties " +
		"thong undress stripping strip seduce seductive bed bang ride riding mouth tongue thighs throat deepthroat creampie milf slutty " +
		"onlyfans camgirl nsfw",
	classAll:    "all every everyone everybody any most these those only typical always everywhere whole entire",
	classBe:     "is are was be being been am isnt arent wasnt werent aint become becomes became look looks sound sounds smell smells",
	classNot:    "not no never dont doesnt didnt wont cant cannot couldnt wouldnt shouldnt nobody none nothing without stop neither nor",
	classSelf:   "self selfharm wrists wrist veins pills razor blade bridge ledge rope scars relapse relapsed starve starving thinspo ana purge purging",
	classWeapon: "gun guns rifle rifles knife knives machete bullet bullets bat axe hammer acid sword pistol ammo grenade shotgun glock ar15 blade weapon weapons",
	classAway:   "deport deported deportation remove removed ban banned expel sent send back home out leave go country border borders return cleanse cleansing purge wipe",
	classHelp: "help helping helped support therapy therapist counsellor counselor hotline helpline recovery recovered doctor doctors nurse " +
		"hospital awareness prevention charity volunteer samaritans listen listening survivor survivors treatment",
	classReport: "said says told asked report reported police court judge study research history documentary film movie book novel article news " +
		"according trial convicted sentenced museum chapter episode character scene game level boss recipe",
	classPeople: "people person persons folk folks guy guys dude bro mate kid kids lady ladies citizens someone somebody anyone human humans users mods",
	classLike:   "like likes as than such kind sort type",
	classFamily: "mother mum mom mam father dad sister brother wife husband son daughter family parents grandma grandpa boss neighbour neighbor teacher girlfriend boyfriend ex",
	classSwear:  "shit shitty bullshit damn goddamn hell crap bloody piss pissed fucker fuckers motherfucker motherfuckers motherfucking fuckin wtf stfu af arse bollocks",
}

// classOf maps a folded word to its class.
var classOf = func() map[string]wordClass {
	m := make(map[string]wordClass, 1200)
	for c, words := range lexicon {
		for word := range strings.FieldsSeq(words) {
			if _, ok := m[word]; !ok {
				m[word] = wordClass(c)
			}
		}
	}
	return m
}()

// NumWordClasses is the number of word classes, with 0 for words without one.
const NumWordClasses = int(numClasses)

// WordClassOf returns the class of a folded word, from 1 to [NumWordClasses]-1, or 0 where it has none.
func WordClassOf(folded []byte) int { return int(classOf[string(folded)]) }

// HasWordClass reports whether a folded word has a class.
func HasWordClass(folded string) bool {
	_, ok := classOf[folded]
	return ok
}
