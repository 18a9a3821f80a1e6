// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// properties are what the tokenizer needs of a code point: see its methods. 0 stands for properties that are not
// computed yet.
type properties uint64

// remembered is the number of code points whose properties are computed once: nearly all that texts are made of. The
// tables of package unicode take many times as long as reading a word or two.
const remembered = 0x20000

// propertyTable holds the properties of code points that were met, so that only the parts of it take memory that texts
// use. Goroutines that meet a code point at the same time write the same.
var propertyTable [remembered]atomic.Uint64

// propertiesOf returns the properties of a code point.
func propertiesOf(r rune) properties {
	if uint32(r) >= remembered {
		return computeProperties(r)
	}
	p := properties(propertyTable[r].Load())
	if p == 0 {
		p = computeProperties(r)
		propertyTable[r].Store(uint64(p))
	}
	return p
}

func computeProperties(r rune) properties {
	class := asciiClass[r&0x7f]
	if r >= utf8.RuneSelf {
		class = computeClass(r)
	}
	to, folding := computeFold(r)
	p := properties(1) | properties(class)<<2 | properties(folding)<<6 | properties(to)<<10 |
		properties(unicode.ToLower(r))<<32
	if unicode.IsLetter(r) {
		p |= 2
	}
	return p
}

// isLetter says whether the code point is a letter by Unicode.
func (p properties) isLetter() bool { return p&2 != 0 }

// class is the part that it plays in words.
func (p properties) class() class { return class(p >> 2 & 15) }

// fold returns what the code point of a word may stand for, in lower case.
func (p properties) fold() (rune, folding) { return rune(p >> 10 & 0x1fffff), folding(p >> 6 & 15) }

// lower is the code point in lower case.
func (p properties) lower() rune { return rune(p >> 32) }

// foldRune returns what a code point of a word may stand for, in lower case.
func foldRune(r rune) (rune, folding) { return propertiesOf(r).fold() }

// computeFold computes what [properties.fold] returns.
func computeFold(r rune) (rune, folding) {
	switch {
	case isASCIILetter(r):
		return r | 0x20, plain
	case isDigit(r):
		return r, digit
	case r == '\'' || r == '’' || r == 'ʼ' || r == '＇':
		return 0, silent
	case r == '*' || r == '#':
		return '*', mask
	case r < utf8.RuneSelf || r == '€' || r == '¢':
		return r, symbol
	case r >= firstRegional && r <= 0x1F1FF:
		return 'a' + r - firstRegional, compat
	case r >= 0x1F110 && r <= 0x1F129:
		return 'a' + r - 0x1F110, compat
	case r >= 0x249C && r <= 0x24B5:
		return 'a' + r - 0x249C, compat
	case r >= 0x1F150 && r <= 0x1F169:
		return 'a' + r - 0x1F150, compat
	case r >= 0x1F170 && r <= 0x1F189:
		return 'a' + r - 0x1F170, compat
	case r >= 0x3040 && r < 0xA4D0 || r >= 0xAC00 && r < 0xF900:
		return r, foreign // Han, kana and Hangul have no forms that matter
	}
	// The commonest letters of disguises, before the slower tables.
	switch {
	case r >= 0x1D400 && r < 0x1D6A4:
		return 'a' + (r-0x1D400)%26, compat // thirteen mathematical alphabets of 26 capitals and 26 small letters
	case r >= 0xFF21 && r <= 0xFF3A:
		return 'a' + r - 0xFF21, compat
	case r >= 0xFF41 && r <= 0xFF5A:
		return 'a' + r - 0xFF41, compat
	}
	lower := unicode.ToLower(r)
	if r >= 0x620 && r < 0x6D4 {
		return arabicLetter(r), foreign
	}
	if to, ok := alikes.look[lower]; ok {
		return to, lookalike
	}
	if to, ok := alikes.faux[lower]; ok {
		return to, faux
	}
	if to, ok := alikes.latin[lower]; ok {
		return to, accent
	}
	var encoded [utf8.UTFMax]byte
	n := utf8.EncodeRune(encoded[:], r)
	if d := norm.NFKD.Properties(encoded[:n]).Decomposition(); len(d) > 0 {
		base, size := utf8.DecodeRune(d)
		if isASCIILetter(base) {
			if size == len(d) {
				return base | 0x20, compat
			}
			return base | 0x20, accent
		}
		if isDigit(base) && size == len(d) {
			return base, digit
		}
		if to, ok := alikes.look[unicode.ToLower(base)]; ok && size == len(d) {
			return to, lookalike // mathematical Greek
		}
	}
	return lower, foreign
}

// arabicLetter returns the letter that a form of an Arabic letter is written as where people do not care: alef without
// its hamza, ya for alef maksura, ha for ta marbuta, and the Arabic letters for those of Persian keyboards.
func arabicLetter(r rune) rune {
	switch r {
	case 'أ', 'إ', 'آ', 'ٱ':
		return 'ا'
	case 'ى', 'ی', 'ئ':
		return 'ي'
	case 'ة':
		return 'ه'
	case 'ؤ':
		return 'و'
	case 'ک':
		return 'ك'
	}
	return r
}

// isVowelMark reports whether a mark is one that Arabic and Hebrew are mostly written without.
func isVowelMark(r rune) bool {
	return r >= 0x64B && r <= 0x65F || r == 0x670 || r >= 0x591 && r <= 0x5C7
}

// cyrillic are the Cyrillic letters that Latin letters, digits and symbols stand for in Cyrillic words.
var cyrillic = pairs("aа", "eе", "oо", "pр", "cс", "yу", "xх", "kк", "mм", "tт", "bв", "hн", "uи", "iі", "rг", "nп", "3з", "0о", "4ч",
	"6б", "9я", "1и", "8в", "@а", "$с", "!и", "|л")

// greek are the Greek letters that Latin letters stand for in Greek words.
var greek = pairs("aα", "oο", "vν", "pρ", "uυ", "iι", "kκ", "xχ", "yγ", "tτ", "eε", "nη", "wω", "bβ", "mμ", "zζ", "hη",
	"áά", "óό", "íί", "úύ", "éέ", "Yυ", "Pρ", "Nν", "Hη")

// alikes are the letters that may stand for an ASCII letter, by the letter in lower case.
var alikes = struct{ look, faux, latin map[rune]rune }{
	// Letters of other scripts that look the same in most fonts.
	look: pairs("аa", "еe", "ѐe", "ёe", "оo", "рp", "сc", "уy", "хx", "ѕs", "іi", "їi", "јj", "ԁd", "һh", "ԛq", "ԝw", "ѵv",
		"ӏl", "вb", "кk", "мm", "нh", "тt", "ьb", "ғf", "ҡk", "қk", "ңh", "үy", "ҳx", "ҽe", "ӧo", "ӓa", "ӱy", "ԍg", "ⲟo",
		"αa", "βb", "εe", "ηn", "ιi", "κk", "νv", "οo", "ρp", "τt", "υu", "χx", "ωw", "γy", "ϲc", "ϳj", "ζz", "άa", "έe", "ήn", "ίi", "όo", "ύu",
		"օo", "սu", "ոn", "հh", "ցg", "զq", "յj", "ѡw", "ꭰd", "ꭱr", "ꭲt", "ꭵi", "ꭺa", "ꭻj", "ꭼe", "ꮃw", "ꮇm", "ꮋh", "ᏽy",
		"ꮐg", "ꮓz", "ꮟb", "ꮢr", "ꮤw", "ꮥs", "ꮩv", "ꮪs", "ꮮl", "ꮯc", "ꮲp", "ꮶk", "ꮷd", "ᏼb",
		"ꓮa", "ꓐb", "ꓚc", "ꓓd", "ꓰe", "ꓝf", "ꓖg", "ꓧh", "ꓲi", "ꓙj", "ꓗk", "ꓡl", "ꓟm", "ꓠn", "ꓳo", "ꓑp", "ꓣr", "ꓢs", "ꓔt", "ꓴu", "ꓦv", "ꓪw", "ꓫx", "ꓬy", "ꓜz"),
	// Letters of other scripts that people use as if they looked so.
	faux: pairs("яr", "иn", "йn", "шw", "щw", "дa", "цu", "чy", "єe", "эe", "зe", "пn", "гr", "лn", "фo", "бb", "ъb", "ыb", "юo",
		"σo", "ςs", "μu", "δd", "θo", "λa", "πn", "ξe", "φo", "ψy", "սu", "տs", "բf", "ցg", "կk", "ճa", "ռn"),
	// Latin letters that do not decompose.
	latin: pairs("øo", "đd", "ħh", "łl", "ıi", "ŧt", "ææ", "œœ", "ßß", "ƒf", "ƙk", "ɓb", "ɗd", "ɠg", "ƞn", "ɛe", "ɨi", "ɑa", "ɡg", "ȷj",
		"ɩi", "ɪi", "ʀr", "ʏy", "ʟl", "ʜh", "ɢg", "ɴn", "ʙb", "ᴀa", "ᴄc", "ᴅd", "ᴇe", "ᴊj", "ᴋk", "ᴍm", "ᴏo", "ᴘp", "ᴛt", "ᴜu", "ᴠv", "ᴡw",
		"ᴢz", "ꜰf", "ꜱs", "ɾr", "ɹr", "ʇt", "ʌv", "ʍm", "ɯm", "ɐa", "ǝe", "ɔo", "ɟf", "ɥh", "ʎy", "ʞk", "ɦh", "ɱm", "ɲn", "ɳn", "ŋn", "ʂs", "ʋv", "ʐz",
		"ƈc", "ƒf", "ƥp", "ƭt", "ʈt", "ɖd", "ƴy", "ȼc", "ɍr", "ɏy", "ɇe", "ɉj", "ᶃg", "ɫl", "ɭl", "ƚl", "ƀb", "ðd", "þp", "ʄf", "ᵽp", "ꝑp", "ꝺd"),
}

// pairs makes a table of strings of a letter and what it stands for.
func pairs(list ...string) map[rune]rune {
	table := make(map[rune]rune, len(list))
	for _, p := range list {
		from, size := utf8.DecodeRuneInString(p)
		to, _ := utf8.DecodeRuneInString(p[size:])
		table[from] = to
	}
	return table
}

// known are words that people disguise, in the order in which a mask is completed with them. They decide what a
// disguise stands for (s*ut is slut, fuuuck is fuck) and not what is harmful: most of a verdict comes from other words.
var known = strings.Fields(`
fuck shit bitch cunt nigger nigga faggot fag dick cock pussy whore slut asshole ass retard rape kill die fucking fucked
fucker fuckers fucks fuckin fuk fuckoff motherfucker motherfucking motherfuckers bullshit shitty shits shithole shithead
bitches bitching bitchy cunts niggers niggas niggaz negro faggots fags faggy dicks dickhead dickheads cocks cocksucker
cocksuckers pussies whores sluts slutty assholes asses arse arsehole retards retarded raped rapist raping rapes killed
killing kills killer dies died dead death damn goddamn hell crap bastard bastards wanker wankers twat twats prick pricks
tits titties boobs penis vagina porn porno sex sexy sexual cum cumming jizz suck sucks sucker blowjob handjob anal anus
dildo horny nude nudes naked masturbate orgasm kike kikes spic spics chink chinks gook gooks wetback wetbacks coon coons
paki pakis raghead ragheads towelhead tranny trannies dyke dykes homo homos queer queers gay gays jew jews muslim muslims
nazi nazis hitler terrorist terrorists idiot idiots idiotic moron morons moronic stupid dumb dumbass loser losers pathetic
scum trash garbage vermin cockroach cockroaches subhuman parasite parasites ugly fat pig pigs fatass jackass dumbfuck
suicide suicidal kys kms cutting overdose hang murder murdered murderer shoot shooting shot stab stabbed stabbing bomb bombs
gun guns knife blood beat punch hurt burn lynch gas hate hates hated hater love stop please yes so no now help me you really
very what why yeah omg lol
`)

// maxKnown is the length of the longest known word.
const maxKnown = 13

var (
	knownSet = func() map[string]struct{} {
		set := make(map[string]struct{}, len(known))
		for _, w := range known {
			set[w] = struct{}{}
		}
		return set
	}()
	knownByInitial = func() (table [26][]string) {
		for _, w := range known {
			table[w[0]-'a'] = append(table[w[0]-'a'], w)
		}
		return table
	}()
)

// flags are the pairs of regional indicators that fonts show as a flag: the codes of countries (ISO 3166-1), EU, UN and
// a few more.
var flags = func() (set [26][26]bool) {
	for pair := range strings.FieldsSeq(`
AC AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD CF CG CH
CI CK CL CM CN CO CP CQ CR CU CV CW CX CY CZ DE DG DJ DK DM DO DZ EA EC EE EG EH ER ES ET EU FI FJ FK FM FO FR GA GB GD GE GF GG GH
GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU IC ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ
LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR
NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ
TA TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM UN US UY UZ VA VC VE VG VI VN VU WF WS XK YE YT ZA ZM ZW`) {
		set[pair[0]-'A'][pair[1]-'A'] = true
	}
	return set
}()

// isKnown reports whether a word is one that people disguise.
func isKnown(word []byte) bool {
	if len(word) > maxKnown {
		return false
	}
	_, ok := knownSet[string(word)]
	return ok
}

// unmask returns the known word that fits a pattern, in which each * stands for a letter, or "".
func unmask(pattern []byte) string {
	if len(pattern) < 3 || len(pattern) > maxKnown+maxMask || pattern[0] < 'a' || pattern[0] > 'z' {
		return ""
	}
	words := knownByInitial[pattern[0]-'a']
	for _, w := range words {
		if len(w) == len(pattern) && fits(pattern, w) {
			return w
		}
	}
	// The number of asterisks is often wrong: f**ing. The letters around them must then say enough.
	first, last := strings.IndexByte(string(pattern), '*'), strings.LastIndexByte(string(pattern), '*')
	prefix, suffix := string(pattern[:first]), string(pattern[last+1:])
	if len(prefix)+len(suffix) < 3 {
		return ""
	}
	for _, w := range words {
		if len(w) > len(prefix)+len(suffix) && strings.HasPrefix(w, prefix) && strings.HasSuffix(w, suffix) {
			return w
		}
	}
	return ""
}

// fits reports whether a word of the same length fits a pattern.
func fits(pattern []byte, word string) bool {
	for i, c := range pattern {
		if c != '*' && c != word[i] {
			return false
		}
	}
	return true
}
