// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"html"
	"strings"
)

// tag is what stands between < and > in markup.
type tag struct {
	name  string // as written
	class class
	end   bool   // </name>
	attrs string // everything behind the name
}

// class is what a tag does to the text around it.
type class uint8

const (
	unknown class = iota // no element of HTML
	inline               // the text continues through it: <b>
	block                // the text ends: <p>, <br>
	raw                  // its content is no markup and not shown: <script>
	hiding               // its content is markup that is not shown: <template>
	literal              // its content is text: <title>
)

// classOf returns the class of an HTML element.
func classOf(name string) class {
	var buf [10]byte
	if len(name) > len(buf) {
		if strings.EqualFold(name, "blockquote") || strings.EqualFold(name, "figcaption") {
			return block
		}
		return unknown
	}
	for i := range len(name) {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf[i] = c
	}
	switch string(buf[:len(name)]) {
	case "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i",
		"img", "input", "ins", "kbd", "label", "mark", "meter", "nobr", "output", "picture", "q", "rp", "rt", "ruby",
		"s", "samp", "slot", "small", "source", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var",
		"wbr", "tspan", "blink", "spacer", "track", "area", "map", "param", "rb", "rtc", "svg", "progress":
		return inline
	case "address", "article", "aside", "audio", "base", "blockquote", "body", "br", "button", "canvas", "caption",
		"center", "col", "colgroup", "datalist", "dd", "details", "dialog", "dir", "div", "dl", "dt", "embed",
		"fieldset", "figcaption", "figure", "footer", "form", "frame", "frameset", "h1", "h2", "h3", "h4", "h5", "h6",
		"head", "header", "hgroup", "hr", "html", "legend", "li", "link", "main", "marquee", "math", "menu",
		"menuitem", "meta", "nav", "object", "ol", "optgroup", "option", "p", "pre", "search", "section", "select",
		"summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul", "video":
		return block
	case "script", "style", "iframe", "noembed", "noframes":
		return raw
	case "template", "noscript":
		return hiding
	case "title", "textarea", "xmp", "plaintext", "listing":
		return literal
	}
	return unknown
}

// tagParser parses tags. To search for the end of an unfinished tag costs as much as the text is long, and a text may
// have many of them. So the number of bytes that may be searched in vain is limited.
type tagParser struct {
	left int // bytes that may still be searched in vain
}

// newTagParser returns a parser for the tags of s.
func newTagParser(s string) tagParser { return tagParser{left: 8*len(s) + 1024} }

// parse parses the tag that s begins with. The size is 0 if s does not begin with a tag, as in "a < b", or if the tag
// does not end.
func (r *tagParser) parse(s string) (t tag, size int) {
	if r.left < 0 {
		return tag{}, 0
	}
	t, size, ended := parseTag(s)
	if !ended {
		r.left -= len(s)
	}
	return t, size
}

// parseTag parses the tag that s begins with. ended is false if it searched in vain for the end.
func parseTag(s string) (t tag, size int, ended bool) {
	i := 1
	if i < len(s) && s[i] == '/' {
		t.end = true
		i++
	}
	if i == len(s) || !isLetter(s[i]) {
		return tag{}, 0, true
	}
	start := i
	for i < len(s) && s[i] != '>' && s[i] != '/' && s[i] > ' ' {
		i++
	}
	t.name = s[start:i]
	attrs := i
	for i < len(s) {
		switch s[i] {
		case '>':
			t.attrs = s[attrs:i]
			t.class = classOf(t.name)
			return t, i + 1, true
		case '=':
			i++
			for i < len(s) && s[i] <= ' ' {
				i++
			}
			if i < len(s) && (s[i] == '"' || s[i] == '\'') {
				end := strings.IndexByte(s[i+1:], s[i])
				if end < 0 {
					return tag{}, 0, false
				}
				i += end + 2
			}
		default:
			i++
		}
	}
	return tag{}, 0, false
}

// attribute cuts the first attribute off the attributes of a tag. It returns false if there is none.
func attribute(attrs string) (name, value, rest string, ok bool) {
	attrs = strings.TrimLeft(attrs, " \t\r\n\f/")
	if attrs == "" {
		return "", "", "", false
	}
	i := 1
	for i < len(attrs) && attrs[i] > ' ' && attrs[i] != '=' && attrs[i] != '/' {
		i++
	}
	name = attrs[:i]
	after := strings.TrimLeft(attrs[i:], " \t\r\n\f")
	if !strings.HasPrefix(after, "=") {
		return name, "", attrs[i:], true
	}
	after = strings.TrimLeft(after[1:], " \t\r\n\f")
	if after == "" {
		return name, "", "", true
	}
	if q := after[0]; q == '"' || q == '\'' {
		if end := strings.IndexByte(after[1:], q); end >= 0 {
			return name, after[1 : 1+end], after[end+2:], true
		}
	}
	i = 0
	for i < len(after) && after[i] > ' ' {
		i++
	}
	return name, after[:i], after[i:], true
}

// isShownAttribute reports whether a browser shows the value of an attribute, or reads it aloud.
func isShownAttribute(name string) bool {
	switch len(name) {
	case 3:
		return strings.EqualFold(name, "alt")
	case 5:
		return strings.EqualFold(name, "title") || strings.EqualFold(name, "label")
	case 10:
		return strings.EqualFold(name, "aria-label")
	case 11:
		return strings.EqualFold(name, "placeholder")
	}
	return false
}

// isBooleanAttribute reports whether an attribute has no value in HTML.
func isBooleanAttribute(name string) bool {
	switch strings.ToLower(name) {
	case "allowfullscreen", "async", "autofocus", "autoplay", "checked", "controls", "default", "defer", "disabled",
		"download", "hidden", "inert", "ismap", "itemscope", "loop", "multiple", "muted", "nomodule", "novalidate",
		"open", "readonly", "required", "reversed", "selected", "playsinline", "nowrap", "noshade", "compact":
		return true
	}
	return false
}

// hasWords reports whether a tag has words that are not markup. An app that shows the tag as text shows them.
func (t *tag) hasWords() bool {
	if t.class == unknown && (!t.end || strings.TrimSpace(t.attrs) != "") {
		return true
	}
	for rest := t.attrs; ; {
		name, value, next, ok := attribute(rest)
		if !ok {
			return false
		}
		if value == "" && HasLetters(name) && !isBooleanAttribute(name) || t.end || manyWords(value) {
			return true
		}
		rest = next
	}
}

// manyWords reports whether a text has at least three words with letters.
func manyWords(s string) bool {
	words := 0
	for word := range strings.FieldsSeq(s) {
		if HasLetters(word) {
			if words++; words == 3 {
				return true
			}
		}
	}
	return false
}

// declaration returns the size of the comment, declaration, instruction or CDATA section that s begins with, and what
// stands in it. CDATA is text.
func declaration(s string) (inside string, size int, cdata bool) {
	switch {
	case strings.HasPrefix(s, "<!--"):
		// <!--> and <!---> are whole comments.
		if strings.HasPrefix(s[4:], ">") {
			return "", 5, false
		}
		if strings.HasPrefix(s[4:], "->") {
			return "", 6, false
		}
		for end := 4; ; end++ {
			next := strings.Index(s[end:], "--")
			if next < 0 {
				return s[4:], len(s), false
			}
			end += next
			switch rest := s[end+2:]; {
			case strings.HasPrefix(rest, ">"):
				return s[4:end], end + 3, false
			case strings.HasPrefix(rest, "!>"):
				return s[4:end], end + 4, false
			}
		}
	case len(s) >= 9 && strings.EqualFold(s[:9], "<![CDATA["):
		end := strings.Index(s, "]]>")
		if end < 0 {
			return s[9:], len(s), true
		}
		return s[9:end], end + 3, true
	case strings.HasPrefix(s, "<!"), strings.HasPrefix(s, "<?"):
		end := strings.IndexByte(s, '>')
		if end < 0 {
			return s[2:], len(s), false
		}
		return s[2:end], end + 1, false
	}
	return "", 0, false
}

// endOf returns the index of the element's end tag in s, and the length of s if there is none.
func endOf(s, name string) int {
	for from := 0; ; {
		i := strings.Index(s[from:], "</")
		if i < 0 {
			return len(s)
		}
		from += i + 2
		rest := s[from:]
		if len(rest) >= len(name) && strings.EqualFold(rest[:len(name)], name) &&
			(len(rest) == len(name) || !isNameByte(rest[len(name)])) {
			return from - 2
		}
	}
}

func isNameByte(c byte) bool { return c > ' ' && c != '/' && c != '>' }

// empty reports whether an element has no content.
func (t *tag) empty() bool {
	if strings.HasSuffix(t.attrs, "/") && t.class == unknown {
		return true
	}
	switch strings.ToLower(t.name) {
	case "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr":
		return true
	}
	return false
}

// isAnnotation reports whether an element holds an annotation in small letters above the text (ruby).
func (t *tag) isAnnotation() bool {
	return strings.EqualFold(t.name, "rt") || strings.EqualFold(t.name, "rp") || strings.EqualFold(t.name, "rtc")
}

// hides reports whether the attributes of an element hide it.
func (t *tag) hides() bool {
	for rest := t.attrs; rest != ""; {
		name, value, next, ok := attribute(rest)
		if !ok {
			return false
		}
		rest = next
		switch {
		case strings.EqualFold(name, "hidden"):
			return true
		case strings.EqualFold(name, "style"):
			if style := plainStyle(value); style.hides() {
				return true
			}
		case strings.EqualFold(name, "class"):
			for class := range strings.FieldsSeq(strings.ToLower(value)) {
				switch class {
				case "hidden", "hide", "d-none", "invisible", "sr-only", "visually-hidden", "is-hidden",
					"screen-reader-text":
					return true
				}
			}
		}
	}
	return false
}

// reversesText reports whether an element forces its text to show from right to left.
func (t *tag) reversesText() bool {
	if t.attrs == "" {
		return false
	}
	forced, rtl := strings.EqualFold(t.name, "bdo"), false
	for rest := t.attrs; rest != ""; {
		name, value, next, ok := attribute(rest)
		if !ok {
			break
		}
		rest = next
		switch {
		case strings.EqualFold(name, "dir"):
			rtl = rtl || strings.EqualFold(strings.TrimSpace(value), "rtl")
		case strings.EqualFold(name, "style"):
			style := string(plainStyle(value))
			rtl = rtl || strings.Contains(style, "direction:rtl")
			forced = forced || strings.Contains(style, "bidi-override") || strings.Contains(style, "isolate-override")
		}
	}
	return forced && rtl
}

// style is the value of a style attribute in lower case, without white space and comments.
type style string

func plainStyle(value string) style {
	if strings.IndexByte(value, '&') >= 0 {
		value = html.UnescapeString(value)
	}
	var plain strings.Builder
	for value != "" {
		before, after, _ := strings.Cut(value, "/*")
		plain.WriteString(before)
		_, value, _ = strings.Cut(after, "*/")
	}
	return style(strings.ToLower(strings.Join(strings.Fields(plain.String()), "")))
}

// hides reports whether a style hides its element.
func (s style) hides() bool {
	for declaration := range strings.SplitSeq(string(s), ";") {
		name, value, _ := strings.Cut(declaration, ":")
		value, _, _ = strings.Cut(value, "!")
		switch name {
		case "display":
			if value == "none" {
				return true
			}
		case "visibility":
			if value == "hidden" || value == "collapse" {
				return true
			}
		case "color":
			if value == "transparent" {
				return true
			}
		case "font-size", "opacity", "max-height", "max-width", "height", "width", "font":
			if isZeroLength(value) {
				return true
			}
		case "text-indent", "left", "top", "right", "margin-left":
			// Outside of the window: -9999px.
			if len(value) >= 5 && value[0] == '-' {
				return true
			}
		case "clip", "clip-path":
			return true
		}
	}
	return false
}

// isZeroLength reports whether a length is too small to see: 0, 0px, 0.01em.
func isZeroLength(value string) bool {
	digits := strings.TrimLeft(value, "0")
	if digits == value {
		return strings.HasPrefix(value, ".0")
	}
	return digits == "" || digits[0] != '.' || strings.HasPrefix(digits, ".0") || strings.HasPrefix(digits, ".1")
}
