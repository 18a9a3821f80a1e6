// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
)

// TestRoles checks that of a chat only the texts of some roles are extracted, and everything that is not beyond doubt
// said by others.
func TestRoles(t *testing.T) {
	t.Parallel()
	const out, in = "a system prompt", "a question"
	system := `{"role":"system","content":"` + out + `"}`
	user := `{"role":"user","content":"` + in + `"}`
	for hazard, c := range map[string]struct {
		body string
		read bool // the text that is not the user's
	}{
		"OpenAI":                        {`{"model":"m","messages":[` + system + `,` + user + `]}`, false},
		"OpenAI, the role last":         {`{"messages":[{"content":"` + out + `","role":"system"},` + user + `]}`, false},
		"a developer":                   {`{"messages":[{"role":"developer","content":[{"type":"text","text":"` + out + `"}]},` + user + `]}`, false},
		"what the model said":           {`{"messages":[{"role":"assistant","content":"` + out + `","tool_calls":[{"function":{"name":"f"}}]},` + user + `]}`, false},
		"Responses":                     {`{"instructions":"` + out + `","input":[` + user + `]}`, false},
		"Responses with one text":       {`{"input":"` + in + `","instructions":"` + out + `"}`, false},
		"Anthropic":                     {`{"system":"` + out + `","messages":[` + user + `]}`, false},
		"Anthropic, with blocks":        {`{"messages":[` + user + `],"system":[{"type":"text","text":"` + out + `"}],"model":"m"}`, false},
		"Gemini":                        {`{"systemInstruction":{"parts":[{"text":"` + out + `"}]},"contents":[{"role":"user","parts":[{"text":"` + in + `"}]}]}`, false},
		"Gemini, what the model said":   {`{"contents":[{"role":"model","parts":[{"text":"` + out + `"}]},{"role":"user","parts":[{"text":"` + in + `"}]}]}`, false},
		"two roles":                     {`{"messages":[{"role":"system","role":"user","content":"` + out + `"},` + user + `]}`, true},
		"two roles, the other way":      {`{"messages":[{"role":"user","content":"` + out + `","role":"system"},` + user + `]}`, true},
		"a role in another case, too":   {`{"messages":[{"role":"system","Role":"user","content":"` + out + `"},` + user + `]}`, true},
		"only in another case":          {`{"messages":[{"ROLE":"system","content":"` + out + `"},` + user + `]}`, true},
		"a value in another case":       {`{"messages":[{"role":"System","content":"` + out + `"},` + user + `]}`, true},
		"escapes in the name":           {`{"messages":[{"r\u006fle":"system","content":"` + out + `"},` + user + `]}`, true},
		"escapes in the name, too":      {`{"messages":[{"role":"system","r\u006fle":"user","content":"` + out + `"},` + user + `]}`, true},
		"escapes in the value":          {`{"messages":[{"role":"s\u0079stem","content":"` + out + `"},` + user + `]}`, true},
		"a NUL behind the name":         {`{"messages":[{"role":"system","role\u0000x":"user","content":"` + out + `"},` + user + `]}`, true},
		"a blank behind the name":       {`{"messages":[{"role":"system","role ":"user","content":"` + out + `"},` + user + `]}`, true},
		"a role that nobody knows":      {`{"messages":[{"role":"guest","content":"` + out + `"},` + user + `]}`, true},
		"no string":                     {`{"messages":[{"role":["system"],"content":"` + out + `"},` + user + `]}`, true},
		"an object":                     {`{"messages":[{"role":{"role":"system"},"content":"` + out + `"},` + user + `]}`, true},
		"null":                          {`{"messages":[{"role":null,"content":"` + out + `"},` + user + `]}`, true},
		"no role":                       {`{"messages":[{"content":"` + out + `"},` + user + `]}`, true},
		"the role of a part":            {`{"messages":[{"content":[{"role":"system","text":"` + out + `"}]},` + user + `]}`, true},
		"a role within a user's":        {`{"messages":[{"role":"user","content":[{"role":"system","text":"` + out + `"}]},` + user + `]}`, true},
		"messages within a user's":      {`{"messages":[{"role":"user","content":{"messages":[` + system + `]}},` + user + `]}`, true},
		"messages elsewhere":            {`{"x":{"messages":[` + system + `]},"messages":[` + user + `]}`, true},
		"messages in another case":      {`{"Messages":[` + system + `],"messages":[` + user + `]}`, true},
		"an object of messages":         {`{"messages":{"a":` + system + `},"input":[` + user + `]}`, true},
		"an array around":               {`[{"messages":[` + system + `,` + user + `]}]`, true},
		"two values":                    {`{"messages":[` + system + `,` + user + `]}{}`, true},
		"a comma too many":              {`{"messages":[` + system + `,` + user + `],}`, false},
		"a comment":                     {`{"messages":[/**/` + system + `,` + user + `]}`, true},
		"JSON that breaks off":          {`{"messages":[` + system + `,` + user, true},
		"single quotes":                 {`{"messages":[{'role':'system','content':'` + out + `'},` + user + `]}`, true},
		"JSON in a string":              {`{"messages":[` + user + `],"x":"{\"messages\":[{\"role\":\"system\",\"content\":\"` + out + `\"}]}"}`, true},
		"an array for a message":        {`{"messages":[["role","system","` + out + `"],` + user + `]}`, true},
		"two texts of the system":       {`{"system":"x","system":"` + out + `","messages":[` + user + `]}`, true},
		"the system in another case":    {`{"System":"` + out + `","messages":[` + user + `]}`, true},
		"a system without messages":     {`{"system":"` + out + `","comment":"` + in + `"}`, true},
		"instructions of something":     {`{"instructions":"` + out + `","messages":[` + user + `]}`, true},
		"instructions of a recipe":      {`{"instructions":["` + out + `"],"ingredients":["` + in + `"]}`, true},
		"more texts than are told":      {`{"x":[` + strings.Repeat(`"a b",`, 5000) + `"c"],"messages":[` + system + `,` + user + `]}`, true},
		"a member behind the system's":  {`{"system":"s","other":"` + out + `","messages":[` + user + `]}`, true},
		"a member before the system's":  {`{"other":"` + out + `","system":"s","messages":[` + user + `]}`, true},
		"words in a name of the system": {`{"messages":[{"role":"system","` + out + `":1},` + user + `]}`, false},
	} {
		s := content.Selection{Roles: []string{"user", "tool"}}
		pieces := s.Extract(nil, content.Type{Kind: content.JSON}, []byte(c.body))
		all := showAll(pieces)
		if strings.Contains(all, out) != c.read || !strings.Contains(all, in) &&
			!strings.Contains(hazard, "messages elsewhere") {
			t.Errorf("%s: got %.300s, want %q among them: %v", hazard, all, out, c.read)
		}
		for _, p := range pieces {
			if p.RichText && !c.read && strings.Contains(p.Text, out) {
				t.Errorf("%s: got %+v as rich text, want it without %q", hazard, p, out)
			}
		}
		// Without the option, with all roles and as another type, everything is extracted.
		allRoles := []string{"system", "user", "assistant", "developer", "model"}
		for _, s := range []content.Selection{{}, {Roles: allRoles}} {
			all := showAll(s.Extract(nil, content.Type{Kind: content.JSON}, []byte(c.body)))
			if !strings.Contains(all, out) {
				t.Errorf("%s, of all roles: got %.300s, want %q among them", hazard, all, out)
			}
		}
		all = showAll(s.Extract(nil, content.Type{Kind: content.Text}, []byte(c.body)))
		if !strings.Contains(all, out) {
			t.Errorf("%s, as text: got %.300s, want %q among them", hazard, all, out)
		}
	}
}

// TestRolesOfLongChats checks that the roles of many messages are told apart, too.
func TestRolesOfLongChats(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"system":"out","messages":[`)
	for i := range 500 {
		fmt.Fprintf(&b, `{"role":"assistant","content":"out %d"},{"content":"in %d","role":"user"},`, i, i)
	}
	b.WriteString(`{"role":"system","content":"out"}]}`)
	s := content.Selection{Roles: []string{"user"}}
	all := showAll(s.Extract([]content.Piece{{Name: "header:X", Text: "before"}}, content.Type{Kind: content.JSON},
		[]byte(b.String())))
	if strings.Contains(all, "out") || strings.Count(all, "=in ") != 500 ||
		!strings.HasPrefix(all, "header:X=before | ") {
		t.Errorf("got %.300s, want the header and the 500 texts of the user, and no others", all)
	}
}

// TestRolesOfSplitTexts checks that what a user says in several strings is still joined, without what others say
// between them.
func TestRolesOfSplitTexts(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"messages":[{"role":"user","content":"qu"},{"content":"out","role":"system"},{"role":"user","content":"est"},{"role":"user","content":"ion"}]}`:                                                                                                      "question",
		`{"messages":[{"role":"user","content":[{"type":"text","text":"qu"}]},{"role":"assistant","content":[{"type":"text","text":"o"},{"type":"text","text":"ut"}]},{"role":"user","content":[{"type":"text","text":"est"},{"type":"text","text":"ion"}]}]}`: "estion",
	} {
		s := content.Selection{Roles: []string{"user"}}
		var views []string
		for _, p := range s.Extract(nil, content.Type{Kind: content.JSON}, []byte(body)) {
			if p.RichText {
				views = append(views, p.Text)
			}
		}
		if all := strings.Join(views, " | "); !strings.Contains(all, want) || strings.Contains(all, "out") {
			t.Errorf("%s: got %q as rich text, want %q among it and nothing of others", body, all, want)
		}
	}
}

func TestCheckRole(t *testing.T) {
	t.Parallel()
	if err := content.CheckRole("user"); err != nil {
		t.Errorf("a known role: got error %v, want none", err)
	}
	err := content.CheckRole("User")
	if want := `there is no role "User"; it must be one of system, developer, user, assistant, model, tool, function`; err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
