// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// attackAttempts are what a second attack found, with other parsers than the first.
func attackAttempts(vile string) []group {
	base64Of := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	var groups []string // of four characters each, with padding
	for _, r := range vile {
		groups = append(groups, base64Of(string(r)))
	}
	word := strings.ReplaceAll(vile, " ", ".") // no blanks
	words := strings.Fields(vile)
	// the text in UTF-7, whose letters are base64 of UTF-16
	utf16 := []byte(wideLE(vile))
	for i := 0; i < len(utf16); i += 2 {
		utf16[i], utf16[i+1] = utf16[i+1], utf16[i]
	}
	utf7 := "+" + strings.TrimRight(base64Of(string(utf16)), "=") + "-"
	// an XML document whose entities are declared in another order than they are used
	var declared, used []string
	for i, w := range words {
		declared, used = append(declared, fmt.Sprintf("<!ENTITY e%d %q>", i, w)), append(used, fmt.Sprintf("&e%d;", i))
	}
	slices.Reverse(declared)
	doctype := "<!DOCTYPE c [" + strings.Join(declared, "") + "]>"
	entities := doctype + "<c>" + strings.Join(used, " ") + "</c>"
	asXML := typ("application/xml")
	paragraphs := strings.Repeat("<p>"+harmless(1000)+"</p>\n", 1100)
	// folded breaks the text within its words.
	folded := func(fold string) string {
		var pieces []string
		for piece := range slices.Chunk([]byte(vile), 3) {
			pieces = append(pieces, string(piece))
		}
		return strings.Join(pieces, fold)
	}
	return []group{
		{"Base64 of parts, as lenient servers decode it", []attempt{
			{name: "The alphabet of addresses, which formidable and multiparty know", header: asParts,
				body: field("comment", base64.URLEncoding.EncodeToString([]byte("???~~~ "+vile)), "Content-Transfer-Encoding: base64") + lastPart, status: refused},
			{name: "Padding before it, which Django leaves out", header: asParts, body: field("comment", "="+base64Of(vile), "Content-Transfer-Encoding: base64") + lastPart, status: refused},
			{name: "Padding within it, behind which formidable goes on", header: asParts, body: field("comment", strings.Join(groups, "\r"), "Content-Transfer-Encoding: base64") + lastPart, status: refused},
			{name: "A parameter behind the encoding, which Django leaves out", header: asParts, body: field("comment", base64Of(vile), "Content-Transfer-Encoding: base64; x=y") + lastPart, status: refused},
			{name: "Two encodings, of which many take the last", header: asParts, body: field("comment", base64Of(vile), "Content-Transfer-Encoding: 8bit", "Content-Transfer-Encoding: base64") + lastPart, status: refused},
			{name: "In a part behind a last delimiter that is none for Django", header: asParts, body: "--xyz--x\r\n" + strings.TrimPrefix(field("comment", base64Of(vile), "Content-Transfer-Encoding: base64"), "--xyz\r\n") + lastPart, status: http.StatusBadRequest},
			{name: "In a part whose delimiter has another line end", header: asParts, body: "\r\n--xyz\r" + strings.TrimPrefix(field("comment", base64Of(vile), "Content-Transfer-Encoding: base64"), "--xyz\r\n") + lastPart, status: http.StatusBadRequest},
			{name: "In a part whose header ends in another way for mail programs", header: asParts, body: "--xyz\r\nContent-Disposition: form-data; name=c\r\nContent-Transfer-Encoding: base64\r\v" + base64Of(vile) + "\r\n" + lastPart, status: http.StatusBadRequest},
		}},
		{"Plain text that looks like something else", []attempt{
			{name: "A form with a credential", header: asText, body: "token=" + word, status: refused},
			{name: "JSON with a credential", header: asText, body: `{"password":"` + word + `"}`, status: refused},
			{name: "A form with a credential, behind a megabyte", header: asText, body: "a=" + strings.ReplaceAll(harmless(1<<20), " ", "+") + "&token=" + word, status: refused},
		}},
		{"Lines that programs join", []attempt{
			{name: "A calendar whose lines are folded within words", header: typ("text/calendar"), body: "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDESCRIPTION:" + folded("\r\n ") + "\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n", status: refused},
			{name: "The same in a field", header: asParts, body: field("ics", "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDESCRIPTION:"+folded("\r\n\t")+"\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n") + lastPart, status: refused},
			{name: "A card in quoted-printable", header: typ("text/vcard"), body: "BEGIN:VCARD\r\nNOTE;ENCODING=QUOTED-PRINTABLE:" + each(vile, "=%02X") + "\r\nEND:VCARD\r\n", status: refused},
			{name: "A mail in quoted-printable", header: typ("message/rfc822"), body: "Subject: Hi\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n" + folded("=\r\n"), status: refused},
			{name: "A mail in quoted-printable, in a field", header: asForm, body: "email=" + percentOf("Subject: Hi\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"+each(vile, "=%02X")), status: refused},
			{name: "A string of YAML over lines", header: typ("application/yaml"), body: "comment: \"" + folded("\\\n    ") + "\"\n", status: refused},
			{name: "A mail in base64", header: typ("message/rfc822"), body: "Subject: Hi\r\nContent-Transfer-Encoding: base64\r\n\r\n" + base64Of(vile), status: passes, why: "text in base64 is read in the parts of a form only"},
		}},
		{"Blanks of credentials", []attempt{
			{name: "Tags", header: asForm, body: "token=" + strings.Join(words, "<br>"), status: refused},
			{name: "Entities", header: asForm, body: "token=" + strings.Join(words, "%26nbsp;"), status: refused},
			{name: "Percent-escapes, twice", header: asForm, body: "token=" + strings.Join(words, "%2520"), status: refused},
			{name: "Plus signs in JSON", header: asJSON, body: `{"token":"` + strings.Join(words, "+") + `"}`, status: refused},
		}},
		{"XML that declares what its text means", []attempt{
			{name: "Entities, in plain text", header: asText, body: entities, status: refused},
			{name: "Entities, in a field", header: asForm, body: "xml=" + percentOf(entities), status: refused},
			{name: "Entities, in a part", header: asParts, body: field("xml", entities) + lastPart, status: refused},
			{name: "Entities, in JSON", header: asJSON, body: `{"xml":` + asString(entities) + `}`, status: refused},
			{name: "Entities that are used behind a megabyte", header: asXML, body: doctype + "<c>" + paragraphs + strings.Join(used, " ") + "</c>", status: refused},
			{name: "A charset of its own, under that of the header", header: typ("application/xml; charset=utf-8"), body: `<?xml version="1.0" encoding="UTF-7"?><c>` + utf7 + "</c>", status: refused},
			{name: "A charset of its own, with blanks around the sign", header: asXML, body: "<?xml version='1.0' encoding = 'UTF-7'?><c>" + utf7 + "</c>", status: refused},
			{name: "A charset of its own, in plain text", header: asText, body: `<?xml version="1.0" encoding="UTF-7"?><c>` + utf7 + "</c>", status: refused},
			{name: "A charset of its own, in a field", header: asForm, body: "xml=" + percentOf(`<?xml version="1.0" encoding="UTF-7"?><c>`+utf7+"</c>"), status: refused},
			{name: "A charset of its own, behind a megabyte", header: typ("application/xml; charset=utf-8"), body: `<?xml version="1.0" encoding="UTF-7"?><c>` + paragraphs + utf7 + "</c>", status: refused},
		}},
	}
}
