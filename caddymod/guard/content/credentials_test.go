// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content_test

import (
	"net/textproto"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
)

// TestCredentials checks that passwords are left out, and that nothing else hides behind their names.
func TestCredentials(t *testing.T) {
	t.Parallel()
	const word = "YouPatheticIdiot"
	for _, test := range []struct {
		name  string // of the field
		value string
		read  bool
	}{
		{"password", word, false},
		{"password", "pathetic idiot", false},
		{"Password", word, false},
		{"new-password", word, false},
		{"password_confirmation", word, false},
		{"user[password]", word, false},
		{"Input.ConfirmPassword", word, false},
		{"registration[plainPassword][first]", word, false},
		{"__RequestVerificationToken", word, false},
		{"_wpnonce", word, false},
		{"j_password", word, false},
		{"signin-password", word, false},
		{"account[user_passwd]", word, false},
		{"Passwort", word, false},
		{"mot_de_passe", word, false},
		{"g-recaptcha-response", word, false},
		{"access_token", word, false},
		{"otp", word, false},

		{"password", "you are an idiot", true},
		{"password", "you\u00a0are\u2003idiots", true},
		{"password", "you\u200bare\u200bidiots", true},
		{"password", "you are\nidiots", true},
		{"password", strings.Repeat("idiot.", 22), true},
		{"password", "idiot;comment=you", true},
		{"password[]", word, true},
		{"password[0]", word, true},
		{"passwords", word, true},
		{"my password", word, true},
		{"comment\x00.password", word, true},
		{"comment;password", word, true},
		{"pa\u017fsword", word, true},
		{"comment", word, true},
		{"password_hint", word, true},
		{"password_comment", word, true},
		{"", word, true},
	} {
		form := url.QueryEscape(test.name) + "=" + url.QueryEscape(test.value)
		quote := strings.NewReplacer("\x00", `\u0000`, "\n", `\n`).Replace
		for way, pieces := range map[string][]content.Piece{
			"form":   extractAll(content.Selection{}, "application/x-www-form-urlencoded", form),
			"part":   new(content.Selection).ExtractPart(nil, test.name, "", textproto.MIMEHeader{}, []byte(test.value)),
			"member": extractAll(content.Selection{}, "application/json", quote(`{"a":[{"`+test.name+`":"`+test.value+`"}]}`)),
			"field of JSON": new(content.Selection).ExtractPart(nil, "payload", "", textproto.MIMEHeader{}, []byte(
				quote(`{"`+test.name+`":"`+test.value+`"}`))),
		} {
			read := false
			for _, piece := range pieces {
				read = read || strings.Contains(strings.ToLower(piece.Text), "idiot")
			}
			if read != test.read {
				t.Errorf("%s %q: %.40q: got extracted %v, want %v", way, test.name, test.value, read, test.read)
			}
		}
	}
}

// TestExtractedCredentials checks that credentials are extracted that are asked for, or that an app says.
func TestExtractedCredentials(t *testing.T) {
	t.Parallel()
	pointer := func(text string) []content.Pointer {
		p, err := content.ParsePointer(text)
		if err != nil {
			t.Fatal(err)
		}
		return []content.Pointer{p}
	}
	const form, json = "application/x-www-form-urlencoded", "application/json"
	for _, test := range []struct {
		name      string
		selection content.Selection
		typ, body string
		want      int
	}{
		{"the option, a form", content.Selection{Credentials: true}, form, "password=idiot", 1},
		{"the option, JSON", content.Selection{Credentials: true}, json, `{"password":"idiot"}`, 1},
		{"the option, JSON in a form", content.Selection{Credentials: true}, form, `a={"password":"idiot"}`, 1},
		{"JSON in a form", content.Selection{}, form, `a={"password":"idiot"}`, 0},
		{"a field that is named", content.Selection{Form: []string{"password"}}, form, "password=idiot", 1},
		{"a member that is named", content.Selection{JSON: pointer("/user/password")}, json, `{"user":{"password":"idiot"}}`, 1},
		{"a member of what is named", content.Selection{JSON: pointer("/user")}, json, `{"user":{"password":"idiot"}}`, 0},
		{"any member", content.Selection{JSON: pointer("/user/*")}, json, `{"user":{"password":"idiot"}}`, 0},
		{"an answer", content.Selection{Trusted: true}, json, `{"token":"idiot"}`, 1},
		{"plain text", content.Selection{Text: true}, form, "password=idiot", 1},
		{"elements", content.Selection{}, json, `{"password":["idiot"],"token":{"a":"idiot"}}`, 2},
		{"broken JSON", content.Selection{}, json, `{"a"} {"password":"idiot"`, 1},
	} {
		if got := extractAll(test.selection, test.typ, test.body); len(got) < test.want ||
			test.want == 0 && len(got) > 0 {
			t.Errorf("%s: got %+v, want %d pieces", test.name, got, test.want)
		}
	}
	if got := content.ExtractQuery(nil, "token=idiot", []string{"*"}); len(got) != 1 {
		t.Errorf("a query: got %+v, want 1 piece", got)
	}
}

func extractAll(s content.Selection, typ, body string) []content.Piece {
	return s.Extract(nil, content.TypeOf([]string{typ}), []byte(body))
}
