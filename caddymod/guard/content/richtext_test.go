// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
)

// views returns the texts of the blocks of rich text in a JSON document, each behind its place.
func views(doc string) (list []string) {
	var s content.Selection
	for _, p := range s.Extract(nil, content.Type{Kind: content.JSON}, []byte(doc)) {
		if p.RichText {
			list = append(list, p.Name+" "+p.Text)
		}
	}
	return list
}

// Hazard: an editor keeps a word as several strings, and the guard takes none of them for that word.
func TestRichText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		doc  string
		want []string
	}{
		"Tiptap and ProseMirror": {`{"type":"doc","content":[{"type":"paragraph","attrs":{"textAlign":null},"content":[{"type":"text","marks":[{"type":"bold"},{"type":"link","attrs":{"href":"https://a.example","title":"x"}}],"text":"I k"},
			{"type":"text","text":"il"},{"type":"text","marks":[{"type":"italic"}],"text":"l you"}]},{"type":"paragraph","content":[{"type":"text","text":"Then "},{"type":"text","text":"we eat."}]}]}`,
			[]string{"/content/0/content I kill you", "/content/1/content Then we eat."}},
		"Lexical": {`{"root":{"children":[{"children":[{"detail":0,"format":1,"mode":"normal","style":"","text":"I k","type":"text","version":1},{"children":[{"text":"il","type":"text"}],"type":"link","url":"https://a.example"},{"text":"l you","type":"text"}],
			"direction":"ltr","type":"paragraph"}],"type":"root"}}`, []string{"/root/children/0/children I kill you"}},
		"Lexical, a link for each word": {`{"root":{"children":[{"type":"paragraph","children":[{"type":"link","children":[{"text":"I "}]},{"type":"link","children":[{"text":"ki"}]},{"type":"link","children":[{"text":"ll"}]}]}]}}`,
			[]string{"/root/children/0/children I kill"}},
		"Slate": {`[{"type":"paragraph","children":[{"text":"I k"},{"text":"","bold":true},{"type":"link","url":"/x","children":[{"text":"i"},{"text":"l","italic":true}]},{"text":"l you"}]}]`,
			[]string{"/0/children I kill you"}},
		"Quill":            {`{"ops":[{"insert":"I k"},{"attributes":{"bold":true,"color":"#ff0000"},"insert":"i"},{"insert":"ll\n"},{"insert":{"image":"x"}},{"attributes":{"header":1},"insert":"you\n"}]}`, []string{"/ops I kill\nyou\n"}},
		"Notion":           {`{"paragraph":{"rich_text":[{"type":"text","text":{"content":"k","link":null},"annotations":{"color":"default"},"plain_text":"k","href":null},{"type":"text","text":{"content":"ill"},"plain_text":"ill"}]}}`, []string{"/paragraph/rich_text kill", "/paragraph/rich_text kill"}},
		"Slack":            {`{"blocks":[{"type":"rich_text","block_id":"b1","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"k","style":{"bold":true}},{"type":"link","url":"https://a.example","text":"i"},{"type":"text","text":"ll"}]}]}]}`, []string{"/blocks/0/elements/0/elements kill"}},
		"Sanity":           {`[{"_type":"block","children":[{"_key":"a","_type":"span","marks":["strong"],"text":"k"},{"_key":"b","_type":"span","text":"ill"}],"markDefs":[{"_key":"x","href":"/"}]}]`, []string{"/0/children kill"}},
		"Editor.js":        {`{"blocks":[{"id":"a","type":"paragraph","data":{"text":"I will k"}},{"id":"b","type":"paragraph","data":{"text":"ill"}}]}`, []string{"/blocks I will kill"}},
		"Minecraft":        {`{"text":"","extra":[{"text":"k","color":"red"},{"text":"ill"}]}`, []string{"/extra kill"}},
		"in a string":      {`{"body":"{\"ops\":[{\"insert\":\"k\"},{\"insert\":\"ill\"}]}"}`, []string{"/body/ops kill"}},
		"broken off":       {`{"ops":[{"insert":"k"},{"insert":"ill"}`, []string{"/ops/1 kill"}},
		"one piece":        {`{"ops":[{"insert":"A whole text.\n"}]}`, nil},
		"names in a list":  {`[{"id":"a","name":"Ann"},{"id":"b","name":"Bob"}]`, nil},
		"an array of tags": {`{"tags":["a","b"]}`, nil},
		"long messages":    {`[{"role":"user","content":"` + strings.Repeat("Can you tell me more about trains? ", 9) + `"},{"role":"assistant","content":"` + strings.Repeat("They are on rails. ", 9) + `"}]`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !json.Valid([]byte(c.doc)) && name != "broken off" {
				t.Fatalf("the document is no JSON: %s", c.doc)
			}
			if got := views(c.doc); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// Hazard: nesting makes every level hold the text of all below it.
func TestRichTextIsBounded(t *testing.T) {
	t.Parallel()
	for name, doc := range map[string]string{
		"deep":   strings.Repeat(`[{"text":"k"},{"text":"ill","c":`, 60) + `[{"text":"` + strings.Repeat("ab ", 1000) + `"},{"text":"c"}]` + strings.Repeat(`}]`, 60),
		"blocks": `[` + strings.Repeat(`{"children":[{"text":"k"},{"text":"ill"}]},`, 5000) + `0]`,
		"flat":   `[` + strings.Repeat(`{"text":"k"},`, 50_000) + `0]`,
	} {
		size := 0
		for _, v := range views(doc) {
			size += len(v)
		}
		if size > 2*len(doc) {
			t.Errorf("%s: got %d bytes of rich text from %d, want twice as many at most", name, size, len(doc))
		}
	}
}

// Hazard: every document with a list is refused, because "bullet" sounds violent.
func TestNamesOfLists(t *testing.T) {
	t.Parallel()
	var s content.Selection
	const doc = `{"type":"bulletList","list":"bullet","kind":"bulleted_list_item","comment":"bullet","style":"bullet to the head"}`
	if got, want := show(s.Extract(nil, content.Type{Kind: content.JSON}, []byte(doc))),
		"/comment=bullet | /style=bullet to the head"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
