// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"unicode"
)

// shape is a form of text that is made to be slow to moderate. A text is many pieces, one after the other.
type shape struct {
	name  string
	piece func(r *rand.Rand) string
}

// text makes a text of length code points.
func (s shape) text(r *rand.Rand, length int) string {
	var out []rune
	for len(out) < length {
		out = append(out, []rune(s.piece(r))...)
	}
	return string(out[:length])
}

// oneOf chooses one of some strings.
func oneOf(r *rand.Rand, all ...string) string { return all[r.IntN(len(all))] }

// letters makes a run of n to m letters of an alphabet.
func letters(r *rand.Rand, alphabet string, n, m int) string {
	from := []rune(alphabet)
	out := make([]rune, n+r.IntN(m-n+1))
	for i := range out {
		out[i] = from[r.IntN(len(from))]
	}
	return string(out)
}

const (
	latin      = "abcdefghijklmnopqrstuvwxyz"
	consonants = "bcdfghjklmnpqrstvwxz"
	cyrillic   = "абвгдежзийклмнопрстуфхцчшщъыьэюя"
	ideographs = "我爱你们都是好人天地日月山水火木金土大小中国人民生活学习工作"
	kana       = "あいうえおかきくけこさしすせそたちつてとなにぬねの"
	thai       = "กขคงจฉชซญฎฏฐฑฒณดตถทธนบปผฝพฟ"
	arabic     = "ابتثجحخدذرزسشصضطظعغفقكلمنهوي"
	devanagari = "अआइईउऊएऐओऔकखगघचछजझटठडढणतथदधन"
	emojis     = "😀😁😂🤣😃😄😅😆😉😊🎆🔪👍"
	marks      = "\u0300\u0301\u0302\u0308\u0323\u0327\u0335\u0336\u0338\u034f"
	unseen     = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u202e\u2066"
	bold       = "𝐚𝐛𝐜𝐝𝐞𝐟𝐠𝐡𝐢𝐣𝐤𝐥𝐦𝐧𝐨𝐩𝐪𝐫𝐬𝐭𝐮𝐯𝐰𝐱𝐲𝐳"
	wide       = "ａｂｃｄｅｆｇｈｉｊｋｌｍｎｏｐｑｒｓｔｕｖｗｘｙｚ"
	lookAlikes = "асеорхуіјѕԁһԛԝ"
	regionals  = "🇦🇧🇨🇩🇪🇫🇬🇭🇮🇯🇰🇱🇲🇳🇴🇵🇶🇷🇸🇹🇺🇻🇼🇽🇾🇿"
	symbols    = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
)

// changed disguises a word by changing a letter.
func changed(r *rand.Rand, word string) string {
	w := []rune(word)
	i := r.IntN(len(w))
	switch r.IntN(5) {
	case 0:
		w[i] = rune(latin[r.IntN(len(latin))])
	case 1:
		w = append(w[:i], w[i+1:]...)
	case 2:
		w = append(w[:i+1], w[i:]...)
	case 3:
		j := max(i, 1)
		if j < len(w) {
			w[j-1], w[j] = w[j], w[j-1]
		}
	case 4:
		w[i] = '*'
	}
	return string(w)
}

// between puts one of the separators after each letter of a word.
func between(r *rand.Rand, word string, separators ...string) string {
	var b strings.Builder
	for _, c := range word {
		b.WriteRune(c)
		b.WriteString(oneOf(r, separators...))
	}
	return b.String()
}

var leet = strings.NewReplacer("a", "4", "e", "3", "i", "1", "o", "0", "s", "$", "t", "7", "l", "|", "b", "8")

// hostile returns the shapes, made of the words that an attacker would use: known and ugly ones, and groups of people
// beside words that are near ugly ones, so that the network classifies everything.
func hostile(words []string) []shape {
	word := func(r *rand.Rand) string { return words[r.IntN(len(words))] }
	ugly := []string{"idiot", "bitch", "kill", "vermin", "whore", "scum", "stab", "faggot", "pussy", "moron", "suicide", "rape", "trash", "hang"}
	groups := []string{"muslims", "jews", "immigrants", "women", "gays", "blacks", "mexicans", "trans", "christians", "refugees", "asians", "cripples"}
	neutral := []string{"are", "all", "should", "be", "the", "you", "will", "i", "they", "never", "not", "those", "want", "to", "my"}
	shapes := []shape{
		{"long words", func(r *rand.Rand) string { return letters(r, latin, 20, 60) + " " }},
		{"words of 20", func(r *rand.Rand) string { return letters(r, latin, 20, 20) + " " }},
		{"words of 15", func(r *rand.Rand) string { return letters(r, latin, 15, 15) + " " }},
		{"words of 8", func(r *rand.Rand) string { return letters(r, latin, 8, 8) + " " }},
		{"words of 5", func(r *rand.Rand) string { return letters(r, latin, 5, 5) + " " }},
		{"words of 3", func(r *rand.Rand) string { return letters(r, latin, 3, 3) + " " }},
		{"words of 2", func(r *rand.Rand) string { return letters(r, latin, 2, 2) + " " }},
		{"words of 1", func(r *rand.Rand) string { return letters(r, latin, 1, 1) + " " }},
		{"random letters", func(r *rand.Rand) string { return letters(r, latin, 1, 10) + " " }},
		{"one word", func(r *rand.Rand) string { return letters(r, latin, 100, 100) }},
		{"consonants", func(r *rand.Rand) string { return letters(r, consonants, 4, 8) + " " }},
		{"vowels", func(r *rand.Rand) string { return letters(r, "aeiou", 1, 9) + " " }},
		{"doubled letters", func(r *rand.Rand) string {
			return between(r, letters(r, "aeioulstmn", 6, 10), "") + strings.Repeat(letters(r, latin, 1, 1), 3) + " "
		}},
		{"every letter doubled", func(r *rand.Rand) string {
			var b strings.Builder
			for _, c := range word(r) {
				b.WriteString(strings.Repeat(string(c), 2+r.IntN(2)))
			}
			return b.String() + " "
		}},
		{"joined words", func(r *rand.Rand) string { return word(r) + word(r) + word(r) + " " }},
		{"joined ugly words", func(r *rand.Rand) string {
			return oneOf(r, neutral...) + oneOf(r, ugly...) + oneOf(r, neutral...) + oneOf(r, groups...) + " "
		}},
		{"words joined for ever", func(r *rand.Rand) string { return word(r) }},
		{"joined short words", func(r *rand.Rand) string {
			return strings.Repeat(oneOf(r, "a", "i", "u", "to", "in", "is", "it"), 1+r.IntN(20)) + " "
		}},
		{"camelCase", func(r *rand.Rand) string {
			title := func(w string) string { return strings.ToUpper(w[:1]) + w[1:] }
			return word(r) + title(word(r)) + title(word(r)) + " "
		}},
		{"one letter off", func(r *rand.Rand) string { return changed(r, word(r)) + " " }},
		{"two letters off", func(r *rand.Rand) string { return changed(r, changed(r, word(r)+"ed")) + " " }},
		{"ugly words one letter off", func(r *rand.Rand) string { return changed(r, oneOf(r, ugly...)) + " " }},
		{"masked", func(r *rand.Rand) string {
			w := word(r) + "xyz"
			return w[:1] + strings.Repeat("*", 1+r.IntN(6)) + w[2:3] + " "
		}},
		{"masked, no word", func(r *rand.Rand) string { return letters(r, latin, 1, 1) + "***" + letters(r, "qxzj", 1, 3) + " " }},
		{"leetspeak", func(r *rand.Rand) string { return leet.Replace(word(r)) + " " }},
		{"leetspeak of no word", func(r *rand.Rand) string { return letters(r, "0134578$@!|+abcdel", 3, 9) + " " }},
		{"strokes", func(r *rand.Rand) string { return letters(r, "1|!li", 3, 9) + " " }},
		{"dots between letters", func(r *rand.Rand) string { return between(r, word(r), ".") + " " }},
		{"dots between letters, no word", func(r *rand.Rand) string { return between(r, letters(r, latin, 20, 40), ".") + " " }},
		{"blanks between letters", func(r *rand.Rand) string { return between(r, letters(r, latin, 10, 30), " ") + ", " }},
		{"anything between letters", func(r *rand.Rand) string { return between(r, word(r), ".", "-", " ", "_", "") + " " }},
		{"invisible between letters", func(r *rand.Rand) string { return between(r, word(r), "\u200b", "\u2060", "") + " " }},
		{"invisible", func(r *rand.Rand) string { return letters(r, unseen, 5, 50) }},
		{"stacked marks", func(r *rand.Rand) string {
			return letters(r, latin, 1, 1) + letters(r, marks, 1, 5) + oneOf(r, "", "", " ")
		}},
		{"marks", func(r *rand.Rand) string { return letters(r, marks, 50, 50) }},
		{"emoji", func(r *rand.Rand) string { return letters(r, emojis, 50, 50) }},
		{"emoji in sequences", func(r *rand.Rand) string {
			return oneOf(r, "👩‍👩‍👧", "👍🏿", "🏴‍☠️", "❤️‍🔥")
		}},
		{"emoji in words", func(r *rand.Rand) string { return between(r, word(r), "😀", "🔪") + " " }},
		{"flags", func(r *rand.Rand) string { return letters(r, regionals, 1, 9) + " " }},
		{"tag characters", func(r *rand.Rand) string {
			var b strings.Builder
			for _, c := range word(r) {
				b.WriteRune(0xE0000 + c)
			}
			return b.String() + oneOf(r, "", " ", "a")
		}},
		{"ideographs", func(r *rand.Rand) string { return letters(r, ideographs, 50, 50) }},
		{"any ideographs", func(r *rand.Rand) string { return string(rune(0x4e00 + r.IntN(0x5000))) }},
		{"kana", func(r *rand.Rand) string { return letters(r, kana, 50, 50) }},
		{"Hangul", func(r *rand.Rand) string { return string(rune(0xac00+r.IntN(11172))) + oneOf(r, "", "", " ") }},
		{"Thai", func(r *rand.Rand) string { return letters(r, thai, 50, 50) }},
		{"Arabic", func(r *rand.Rand) string { return letters(r, arabic, 2, 8) + " " }},
		{"Devanagari", func(r *rand.Rand) string { return letters(r, devanagari, 2, 8) + " " }},
		{"Cyrillic", func(r *rand.Rand) string { return letters(r, cyrillic, 1, 10) + " " }},
		{"look-alikes", func(r *rand.Rand) string { return letters(r, lookAlikes+"abc", 2, 10) + " " }},
		{"look-alikes in Latin text", func(r *rand.Rand) string { return word(r) + " " + letters(r, lookAlikes, 2, 6) + " " }},
		{"mixed scripts", func(r *rand.Rand) string { return letters(r, latin+cyrillic+ideographs+arabic+thai, 2, 10) + " " }},
		{"bold letters", func(r *rand.Rand) string { return letters(r, bold, 2, 8) + " " }},
		{"full-width letters", func(r *rand.Rand) string { return letters(r, wide, 2, 8) + " " }},
		{"ligatures", func(r *rand.Rand) string {
			return oneOf(r, "ﷺ", "ﬃ", "㎏", "㍿", "Ⅷ", "①", "⑳", "🄰", "ǆ") + oneOf(r, "", " ", "a")
		}},
		{"any code points", func(r *rand.Rand) string { return string(rune(r.IntN(unicode.MaxRune))) }},
		{"digits", func(r *rand.Rand) string { return letters(r, "0123456789", 1, 12) + oneOf(r, " ", ".", ",", "-", ":") }},
		{"digits with letters", func(r *rand.Rand) string { return letters(r, "0123456789abc", 1, 8) + " " }},
		{"ordinals and units", func(r *rand.Rand) string {
			return letters(r, "0123456789", 1, 3) + oneOf(r, "th", "km", "st", "mb", "x", "k") + " "
		}},
		{"punctuation", func(r *rand.Rand) string { return letters(r, symbols, 50, 50) }},
		{"punctuation in words", func(r *rand.Rand) string { return letters(r, symbols+latin, 50, 50) }},
		{"open quotes", func(r *rand.Rand) string { return oneOf(r, `"`, "“", "'", "«", "‘") + oneOf(r, "", "a ", "b") }},
		{"apostrophes", func(r *rand.Rand) string { return between(r, word(r), "'", "’", "") + " " }},
		{"at signs", func(r *rand.Rand) string { return letters(r, "@s#a", 2, 12) + " " }},
		{"mentions", func(r *rand.Rand) string { return oneOf(r, "@", "#") + word(r) + word(r) + " " }},
		{"entities", func(r *rand.Rand) string { return fmt.Sprintf("&#%d;", 'a'+r.IntN(26)) }},
		{"percent escapes", func(r *rand.Rand) string { return fmt.Sprintf("%%%02X", 'a'+r.IntN(26)) }},
		{"tags", func(r *rand.Rand) string {
			w := word(r)
			return "<" + w + " class=" + word(r) + ">" + w + "</" + w + ">"
		}},
		{"letters in tags", func(r *rand.Rand) string { return "<b>" + letters(r, latin, 1, 2) + "</b>" }},
		{"alternating case", func(r *rand.Rand) string {
			w := []rune(word(r))
			for i := range w {
				if i%2 == 0 {
					w[i] = unicode.ToUpper(w[i])
				}
			}
			return string(w) + " "
		}},
		{"capitals", func(r *rand.Rand) string { return strings.ToUpper(changed(r, word(r))) + " " }},
		{"capitals of no words", func(r *rand.Rand) string { return letters(r, strings.ToUpper(latin), 2, 12) + " " }},
		{"newlines", func(r *rand.Rand) string { return oneOf(r, "\n", "\n", "\r\n", "a\n") }},
		{"a word a line", func(r *rand.Rand) string { return word(r) + "\n" }},
		{"a letter a sentence", func(r *rand.Rand) string { return letters(r, latin, 1, 1) + oneOf(r, ". ", "! ", "? ") }},
		{"base64", func(r *rand.Rand) string {
			b := make([]byte, 57)
			for i := range b {
				b[i] = byte(r.IntN(256))
			}
			return base64.StdEncoding.EncodeToString(b) + "\n"
		}},
		{"hexadecimal", func(r *rand.Rand) string { return letters(r, "0123456789abcdef", 32, 32) + " " }},
		{"addresses", func(r *rand.Rand) string {
			return "https://" + word(r) + "." + word(r) + "/" + changed(r, word(r)) + "?" + word(r) + "=" + letters(r, latin, 1, 9) + " "
		}},
		{"mail addresses", func(r *rand.Rand) string { return word(r) + "." + letters(r, latin, 3, 8) + "@" + word(r) + ".com " }},
		{"paths", func(r *rand.Rand) string { return "/" + letters(r, latin, 2, 8) }},
		{"source code", func(r *rand.Rand) string {
			return word(r) + "_" + word(r) + "(" + letters(r, latin, 1, 3) + "." + word(r) + ") {\n\t"
		}},
		{"random bytes", func(r *rand.Rand) string {
			return string([]byte{byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256))})
		}},
		{"broken UTF-8", func(r *rand.Rand) string { return oneOf(r, "\xff", "\xf0\x9f", "\xc3", "a\x80") }},
		{"ugly words", func(r *rand.Rand) string { return oneOf(r, ugly...) + oneOf(r, " ", " ", " ", ". ") }},
		{"groups beside ugly words", func(r *rand.Rand) string {
			return oneOf(r, neutral...) + " " + oneOf(r, groups...) + " " + changed(r, oneOf(r, ugly...)) + oneOf(r, " ", " ", ". ", "! ")
		}},
		{"groups beside unknown words", func(r *rand.Rand) string {
			return "you " + oneOf(r, groups...) + " are " + oneOf(r, ugly...) + " " + letters(r, latin, 12, 20) + oneOf(r, " ", " ", ". ")
		}},
		{"persons and harm", func(r *rand.Rand) string {
			return oneOf(r, "you ", "i ", "they ", "will ", "kill ", "her ", "not ", "die ", "all ", "muslims ", "we ", "hate ")
		}},
		{"all marks of harm", func(r *rand.Rand) string {
			return `"` + strings.ToUpper(oneOf(r, ugly...)) + " not " + leet.Replace(oneOf(r, ugly...)) + " #" + oneOf(r, groups...) + ` soooo "! `
		}},
	}
	for _, c := range []string{"a", "i", "e", "l", "x", "1", "0", "*", "@", "$", "!", "|", "'", "\"", ".", "-", "_", " ", "\n", "\x00", "\u00df", "\u0130", "\u0301", "\u200b", "я", "我", "ก", "ﷺ", "😀", "🇩", "𝐚", "\U000e0061", "\xff"} {
		shapes = append(shapes, shape{fmt.Sprintf("only %+q", c), func(*rand.Rand) string { return c }})
	}
	for _, c := range []string{"a ", "a.", "a1", "a*", "a'", "a\u0301", "a\u200b", "aа", "a我", "a😀", "l1", "1 ", "$a", "@s", "*a", "no ", "you ", "kill ", "muslims ", "idiot. "} {
		shapes = append(shapes, shape{fmt.Sprintf("again and again %+q", c), func(*rand.Rand) string { return c }})
	}
	return shapes
}

// everyday returns ordinary texts: the harmless rows of the files of the corpus that hold everyday talk, long posts and
// plain statements.
func everyday() (texts []string, err error) {
	for _, name := range []string{"everyday", "long", "plain", "posts", "kind"} {
		rows, err := readCorpus("train/corpus/" + name + ".jsonl")
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if row.harmless() {
				texts = append(texts, row.Text)
			}
		}
	}
	return texts, nil
}

// corpusRow is a row of the corpus. Rows for themes have no labels.
type corpusRow struct {
	Text   string
	Labels map[string]int
}

// harmless reports whether no category applies to the row.
func (r corpusRow) harmless() bool {
	for _, label := range r.Labels {
		if label > 0 {
			return false
		}
	}
	return true
}

// readCorpus reads a file of the corpus.
func readCorpus(name string) (rows []corpusRow, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		var row corpusRow
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			return nil, fmt.Errorf("decoding a row of %s: %w", name, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// wordsOf returns the distinct words of texts that consist of Latin letters.
func wordsOf(texts []string) (words []string) {
	seen := make(map[string]bool)
	for _, text := range texts {
		for word := range strings.FieldsFuncSeq(strings.ToLower(text),
			func(r rune) bool { return r < 'a' || r > 'z' }) {
			if len(word) > 2 && !seen[word] {
				seen[word], words = true, append(words, word)
			}
		}
	}
	return words
}
