// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/text/language"
)

// textFiles hold all texts of the pages, a file for each part of the desk: by name, in each of the languages.
//
//go:embed texts*.json
var textFiles embed.FS

// languages are those of the pages, in the order of the texts.
var languages = [4]string{"en", "de", "es", "fr"}

// texts are all texts, by name.
var texts = sync.OnceValue(func() map[string][len(languages)]string {
	files, err := textFiles.ReadDir(".")
	if err != nil {
		panic(err) // the files are in the binary
	}
	all := map[string][len(languages)]string{}
	for _, file := range files {
		content, err := textFiles.ReadFile(file.Name())
		if err == nil {
			err = json.Unmarshal(content, &all)
		}
		if err != nil {
			panic(fmt.Sprintf("%s: %v", file.Name(), err)) // a test reads it
		}
	}
	return all
})

// matcher finds the language that a visitor wants.
var matcher = sync.OnceValue(func() language.Matcher {
	tags := make([]language.Tag, len(languages))
	for i, tag := range languages {
		tags[i] = language.Make(tag)
	}
	return language.NewMatcher(tags)
})

// words are the texts in one language.
type words struct {
	tag   string // BCP 47
	index int
}

// maxAcceptLanguage is the maximum length of an Accept-Language header field that is read, in bytes.
const maxAcceptLanguage = 512

// wordsFor returns the words that the values of an Accept-Language header field ask for (RFC 9110, section 12.5.4), and
// English where there is none, or none of the languages is known.
func wordsFor(accept []string) words {
	english := words{tag: languages[0]}
	value := strings.Join(accept, ",")
	if value == "" || len(value) > maxAcceptLanguage {
		return english
	}
	tags, _, err := language.ParseAcceptLanguage(value)
	if err != nil {
		return english
	}
	_, i, confidence := matcher().Match(tags...)
	if confidence == language.No {
		return english
	}
	return words{tag: languages[i], index: i}
}

// say returns a text with {0}, {1} and so on replaced by the arguments. A text that there is not is an error.
func (w words) say(key string, arguments ...any) (string, error) {
	all, ok := texts()[key]
	if !ok {
		return "", fmt.Errorf("there is no text %q", key)
	}
	text := all[w.index]
	if len(arguments) == 0 {
		return text, nil
	}
	pairs := make([]string, 0, 2*len(arguments))
	for i, argument := range arguments {
		pairs = append(pairs, "{"+strconv.Itoa(i)+"}", fmt.Sprint(argument))
	}
	return strings.NewReplacer(pairs...).Replace(text), nil
}

// must is say for a text that a test knows to be there; without it, its name is shown.
func (w words) must(key string, arguments ...any) string {
	text, err := w.say(key, arguments...)
	if err != nil {
		return key
	}
	return text
}

// number returns a whole number with separators between thousands.
func (w words) number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	separator := map[string]string{"de": ".", "es": ".", "fr": "\u202f"}[w.tag]
	if separator == "" {
		separator = ","
	}
	var b strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteString(separator)
		}
		b.WriteRune(digit)
	}
	return sign + b.String()
}

// percent returns a share in percent, with one digit behind the point. Only what is certain is 100%.
func (w words) percent(share float64) string {
	text := strconv.FormatFloat(100*share, 'f', 1, 64)
	if text == "100.0" && share < 1 {
		text = ">99.9"
	}
	if w.tag == "en" {
		return text + "%"
	}
	return strings.Replace(text, ".", ",", 1) + "\u00a0%"
}
