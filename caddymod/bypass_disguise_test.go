// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"encoding/json"
	"fmt"
	"strings"
)

// eachLetter writes every letter of a text by a function.
func eachLetter(text string, write func(r rune) string) string {
	var b strings.Builder
	for _, r := range text {
		if r|0x20 >= 'a' && r|0x20 <= 'z' {
			b.WriteString(write(r))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// shifted writes the letters of a text as those of another alphabet, which begins with first.
func shifted(text string, first rune) string {
	return eachLetter(text, func(r rune) string { return string(first + (r | 0x20) - 'a') })
}

// inWords puts something behind the first letter of every word of at least three.
func inWords(text, noise string) string {
	words := strings.Fields(text)
	for i, w := range words {
		if len(w) > 2 {
			words[i] = w[:1] + noise + w[1:]
		}
	}
	return strings.Join(words, " ")
}

// aroundWords puts something before and behind every word.
func aroundWords(text, before, behind string) string {
	return before + strings.Join(strings.Fields(text), behind+" "+before) + behind
}

// aroundSecond puts something before and behind the second letter of every word of at least three.
func aroundSecond(text, before, behind string) string {
	words := strings.Fields(text)
	for i, w := range words {
		if len(w) > 2 {
			words[i] = w[:1] + before + w[1:2] + behind + w[2:]
		}
	}
	return strings.Join(words, " ")
}

// relettered writes the small letters of a text, and commas, by a list.
func relettered(text string, list string) string {
	letters := []rune(list)
	return strings.Map(func(r rune) rune {
		if i := strings.IndexRune("abcdefghijklmnopqrstuvwxyz,.", r); i >= 0 && i < len(letters) {
			return letters[i]
		}
		return r
	}, strings.ToLower(text))
}

// pieces is a text in pieces of so many letters, each written by a format with its place for a string of JSON.
func pieces(text string, size int, format string) string {
	var list []string
	for len(text) > 0 {
		n := min(size, len(text))
		list = append(list, fmt.Sprintf(format, asString(text[:n])))
		text = text[n:]
	}
	return strings.Join(list, ",")
}

// disguiseAttempts are texts that do not look like what they say: by markup, by letters, and by what editors keep them
// in.
func disguiseAttempts(vile string) []group {
	const (
		upsideDown = "ɐqɔpǝɟƃɥᴉɾʞlɯuodbɹsʇnʌʍxʎz'˙"
		mirrored   = "ɒdɔbɘꟻǫʜiꞁʞlmnoqpɿƨƚuvwxγz,."
		braille    = "⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵⠂⠲"
	)
	say := func(name, text string) attempt {
		body, _ := json.Marshal(map[string]string{"comment": text})
		return attempt{name: name, header: asJSON, body: string(body), status: refused}
	}
	doc := func(name, format, list string) attempt {
		return attempt{name: name, header: asJSON, body: strings.Replace(format, "…", list, 1), status: refused}
	}
	hidden := func(how string) string { return inWords(vile, "<i "+how+">love</i>") }
	smuggled := ""
	for i := range len(vile) {
		smuggled += string(rune(0xe0100 + int(vile[i]) - 16))
	}
	return []group{
		{"Markup in and around words", []attempt{
			say("Markdown: a link around each word", aroundWords(vile, "[", "](x)")),
			say("Markdown: a link with a title around each word", aroundWords(vile, "[", `](https://example.com/a "What a lovely day it is")`)),
			say("Markdown: a link around a letter of each word", aroundSecond(vile, "[", "](x)")),
			say("Markdown: a reference link around each word", aroundWords(vile, "[", "][nice]")),
			say("Markdown: an image for each word", aroundWords(vile, "![", "](x.png)")),
			say("Markdown: an address in angle brackets for each word", aroundWords(vile, "<http://", ">")),
			say("Markdown: each word in bold", aroundWords(vile, "**", "**")),
			say("Markdown: a letter of each word in bold", aroundSecond(vile, "**", "**")),
			say("Markdown: each letter in bold", eachLetter(vile, func(r rune) string { return "**" + string(r) + "**" })),
			say("Markdown: empty emphasis in each word", inWords(vile, "____")),
			say("Markdown: a letter of each word as code", aroundSecond(vile, "`", "`")),
			say("Markdown: a letter of each word struck through", aroundSecond(vile, "~~", "~~")),
			say("Markdown: an escaped hyphen behind each letter", eachLetter(vile, func(r rune) string { return string(r) + `\-` })),
			say("Spoilers around each word", aroundWords(vile, "||", "||")),
			say("A wiki's links around each word", aroundWords(vile, "[[Love|", "]]")),
			say("Slack's links around each word", aroundWords(vile, "<https://example.com|", ">")),
			say("Textile's links around each word", aroundWords(vile, `"`, `":https://example.com/love`)),
			say("LaTeX around each letter", eachLetter(vile, func(r rune) string { return `\text{` + string(r) + `}` })),
			say("BBCode around each letter", eachLetter(vile, func(r rune) string { return "[b]" + string(r) + "[/b]" })),
			say("BBCode in each word", inWords(vile, "[b][/b]")),
			say("BBCode: a link around each word", aroundWords(vile, "[url=https://example.com/love]", "[/url]")),
			say("BBCode: a colour and a size around each letter", eachLetter(vile, func(r rune) string { return "[color=#ff0000][size=3]" + string(r) + "[/size][/color]" })),
			say("BBCode: a picture in each word", inWords(vile, "[img]https://example.com/love.png[/img]")),
			say("HTML: hidden text in each word", hidden("hidden")),
			say("HTML: `display: none` in each word", hidden(`style="color:red; display : none"`)),
			say("HTML: letters of no size in each word", hidden(`style='font-size:0px'`)),
			say("HTML: hidden text between words", strings.ReplaceAll(vile, " ", ` <b style="visibility:hidden">what a lovely day</b> `)),
			say("HTML: text from right to left by `<bdo>`", "<bdo dir=rtl>"+backwards(vile)+"</bdo>"),
			say("HTML: text from right to left by a style", `<span style="unicode-bidi: bidi-override; direction: rtl">`+backwards(vile)+"</span>"),
			say("HTML: small letters above the words", aroundWords(vile, "<ruby>", "<rt>love</rt></ruby>")),
		}},
		{"Letters that are none", []attempt{
			say("Emoji in words", inWords(vile, "😀")),
			say("Emoji of several characters between all letters", strings.TrimSuffix(eachLetter(vile, func(r rune) string { return string(r) + "❤️" }), "❤️")),
			say("Names of emoji in words", inWords(vile, ":heart:")),
			say("A letter of each word in parentheses", aroundSecond(vile, "(", ")")),
			say("The first letter of each word in brackets", "["+strings.ReplaceAll(inWords(vile, "]"), " ", " [")),
			say("All letters in braces", eachLetter(vile, func(r rune) string { return "{" + string(r) + "}" })),
			say("Hyphens in all words", inWords(vile, "-")),
			say("Two dots between all letters", eachLetter(vile, func(r rune) string { return string(r) + ".." })),
			say("Bars between all letters", strings.ReplaceAll(eachLetter(vile, func(r rune) string { return string(r) + "|" }), "| ", " ")),
			say("Squared letters", shifted(vile, 0x1f130)),
			say("White letters in squares", shifted(vile, 0x1f170)),
			say("Circled letters", shifted(vile, 0x24d0)),
			say("Parenthesised letters", shifted(vile, 0x249c)),
			say("Parenthesised capitals", shifted(vile, 0x1f110)),
			say("Regional indicators", shifted(vile, 0x1f1e6)),
			say("Regional indicators, divided so that they are no flags", strings.Join(strings.Split(shifted(vile, 0x1f1e6), ""), "\u200b")),
			say("Tag characters between all letters", eachLetter(vile, func(r rune) string { return string(r) + "\U000e0061" })),
			say("Wholly in tag characters, which nobody sees but a model reads", strings.Map(func(r rune) rune { return 0xe0000 + r }, vile)),
			say("Tag characters behind a harmless text", "Have a nice day 😀"+strings.Map(func(r rune) rune { return 0xe0000 + r }, vile)),
			say("Variation selectors between all letters", eachLetter(vile, func(r rune) string { return string(r) + "\ufe0f" })),
			say("Variation selectors that stand for bytes", "Have a nice day 😀"+smuggled),
			say("Letters upside down", relettered(vile, upsideDown)),
			say("Upside down, from the end to the beginning", relettered(backwards(vile), upsideDown)),
			say("Mirrored, from the end to the beginning", relettered(backwards(vile), mirrored)),
			say("Tatweels between all letters", eachLetter(vile, func(r rune) string { return string(r) + "ـ" })),
			say("Small capitals", relettered(vile, "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘǫʀꜱᴛᴜᴠᴡxʏᴢ")),
			say("Full-width letters", shifted(vile, 0xff41)),
			say("Superscript letters", relettered(vile, "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖᑫʳˢᵗᵘᵛʷˣʸᶻ")),
			say("Mathematical letters", shifted(vile, 0x1d41a)),
			say("Letters with many marks", eachLetter(vile, func(r rune) string { return string(r) + "\u0337\u031b\u0346" })),
			say("Braille", relettered(vile, braille)),
		}},
		{"Rich text, two letters a piece", []attempt{
			doc("Tiptap and ProseMirror", `{"type":"doc","content":[{"type":"paragraph","content":[…]}]}`, pieces(vile, 2, `{"type":"text","marks":[{"type":"bold"},{"type":"textStyle","attrs":{"color":"#ff0000"}}],"text":%s}`)),
			doc("Lexical", `{"root":{"type":"root","children":[{"type":"paragraph","children":[…]}]}}`, pieces(vile, 2, `{"detail":0,"format":1,"mode":"normal","style":"","text":%s,"type":"text","version":1}`)),
			doc("Lexical, each piece in a link", `{"root":{"type":"root","children":[{"type":"paragraph","children":[…]}]}}`, pieces(vile, 2, `{"children":[{"mode":"normal","text":%s,"type":"text"}],"type":"link","rel":"noreferrer","url":"https://example.com/love"}`)),
			doc("Slate", `[{"type":"paragraph","children":[…]}]`, pieces(vile, 2, `{"text":%s,"bold":true},{"text":""}`)),
			doc("Quill", `{"ops":[…,{"insert":"\n"}]}`, pieces(vile, 2, `{"attributes":{"bold":true,"link":"https://example.com/love"},"insert":%s}`)),
			doc("Notion", `{"paragraph":{"rich_text":[…]}}`, pieces(vile, 2, `{"type":"text","text":{"content":%s,"link":null},"annotations":{"bold":true,"color":"default"},"href":null}`)),
			doc("Slack", `{"blocks":[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[…]}]}]}`, pieces(vile, 2, `{"type":"text","text":%s,"style":{"bold":true}}`)),
			doc("Portable Text", `[{"_type":"block","style":"normal","children":[…]}]`, pieces(vile, 2, `{"_key":"0f3a","_type":"span","marks":["strong"],"text":%s}`)),
			doc("Editor.js, a mark on each letter", `{"time":1,"blocks":[{"id":"a","type":"paragraph","data":{"text":…}}]}`, asString(eachLetter(vile, func(r rune) string { return "<b>" + string(r) + "</b>" }))),
			doc("Draft.js", `{"blocks":[{"key":"a","text":…,"type":"unstyled","inlineStyleRanges":[{"offset":0,"length":3,"style":"BOLD"}]}],"entityMap":{}}`, asString(vile)),
			doc("An editor that nobody knows", `{"page":{"lines":[{"spans":[…]}]}}`, pieces(vile, 2, `{"font":"serif","id":"x1","value":%s}`)),
		}},
	}
}

// asString is a text as a string of JSON.
func asString(text string) string {
	encoded, _ := json.Marshal(text)
	return string(encoded)
}
