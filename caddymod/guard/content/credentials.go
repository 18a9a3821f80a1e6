// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"strings"
	"unicode"
)

// maxCredential is the length, in bytes, of the longest credential that is left out. Longer tokens are extracted: a
// classifier finds nothing in random characters.
const maxCredential = 128

// leavesOut reports whether a value is a credential and not language: its place is named like one, and it is short.
// Nothing is left out if the selection wants credentials or trusts the body.
func (s *Selection) leavesOut(name, value string) bool {
	return !s.Credentials && !s.Trusted && isCredentialName(name) && isCredential(value)
}

// leavesOutField is [Selection.leavesOut] for a form field. A field that the selection names is never left out.
func (s *Selection) leavesOutField(name, value string) bool {
	return len(s.Form) == 0 && s.leavesOut(name, value)
}

// leavesOutPair is [Selection.leavesOutField] for a field whose name and value have several readings, all of which
// must be those of a credential.
func (s *Selection) leavesOutPair(names, values [][]byte) bool {
	for _, name := range names {
		for _, value := range values {
			if !s.leavesOutField(stringOf(name), stringOf(value)) {
				return false
			}
		}
	}
	return true
}

// leavesOut reports whether the current string is a credential: the value of an object's member that no pointer
// names. Elements of arrays are none.
func (s *jsonScanner) leavesOut(text string) bool {
	f := s.top()
	if f == nil || !f.object || !f.keyed || s.broken || !s.sel.leavesOut(f.key, text) {
		return false
	}
	place := s.place()
	for i := range s.sel.JSON {
		pointer := &s.sel.JSON[i]
		if n := len(pointer.tokens); n > 0 && n == len(place) && !pointer.tokens[n-1].any && pointer.covers(place) {
			return false
		}
	}
	return true
}

// whole returns a selection of everything within a value.
func (s *Selection) whole() *Selection {
	if s.Credentials || s.Trusted {
		return &everything
	}
	return &common
}

var (
	// everything selects all texts.
	everything = Selection{Credentials: true}
	// common selects all texts except credentials.
	common Selection
)

// isCredential reports whether a value may be a credential: it is short, and has at most one blank. Text that hides
// in a field called "password" has more. A value that may be several fields, or JSON, is no credential.
func isCredential(value string) bool {
	if len(value) > maxCredential || value == "" || value[0] == '{' || value[0] == '[' {
		return false
	}
	if _, rest, found := strings.Cut(value, ";"); found && strings.Contains(rest, "=") {
		return false // two fields, to some apps
	}
	if seen, changed := Visible(value); changed && blanks(seen) > 1 {
		return false // what divides its words are tags or entities
	}
	return blanks(value) <= 1
}

// blanks counts the characters that may separate words. Control characters, which no credential has, count twice.
func blanks(value string) (n int) {
	for _, r := range value {
		switch {
		case unicode.IsControl(r):
			n += 2
		case unicode.IsSpace(r) || unicode.Is(unicode.Cf, r):
			n++
		}
	}
	return n
}

// maxCredentialName is the length of the longest name of a credential, without hyphens and underscores.
const maxCredentialName = 32

// isCredentialName reports whether a name stands for a credential, in any case, with or without hyphens and
// underscores. Of user[password] and Input.Password the last word counts, and of password[first], as some frameworks
// have it, the one before.
func isCredentialName(name string) bool {
	if base, ok := strings.CutSuffix(name, "[first]"); ok {
		name = base
	} else if base, ok := strings.CutSuffix(name, "[second]"); ok {
		name = base
	}
	var buf [maxCredentialName]byte
	n := 0
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '-' || c == '_' || c == ']':
		case c == '.' || c == '[':
			n = 0
		case n == len(buf) || !isLetter(c) && !isDigit(c):
			return false // some app may take it for another name
		case c >= 'A' && c <= 'Z':
			buf[n] = c + 'a' - 'A'
			n++
		default:
			buf[n] = c
			n++
		}
	}
	base := buf[:n]
	if bytes.HasSuffix(base, []byte("password")) || bytes.HasSuffix(base, []byte("passwd")) ||
		bytes.HasSuffix(base, []byte("passwort")) {
		return true // j_password, signin_password
	}
	switch string(base) {
	case
		// Passwords.
		"pwd", "pass", "passphrase", "passcode", "userpass", "password1", "password2", "newpassword1", "newpassword2",
		"pass1", "pass2", "passwordconfirm", "passwordconfirmation", "passwordrepeat", "passwordagain",
		"passwordhash", "wpretype", "kennwort", "motdepasse", "contrasena", "senha", "wachtwoord",
		// One-time codes.
		"otp", "otpcode", "onetimecode", "totp", "totpcode", "mfacode", "twofactorcode", "verificationcode",
		"recoverycode", "backupcode",
		// Keys and secrets.
		"secret", "clientsecret", "secretkey", "apikey", "apitoken", "accesskey", "privatekey", "authorization",
		// Tokens.
		"token", "accesstoken", "refreshtoken", "idtoken", "authtoken", "sessiontoken", "sessionid", "resettoken",
		"resetpasswordtoken",
		"confirmationtoken", "invitationtoken", "codeverifier", "clientassertion", "samlresponse", "samlrequest",
		// CSRF tokens.
		"csrf", "csrftoken", "csrfmiddlewaretoken", "xsrf", "xsrftoken", "authenticitytoken",
		"requestverificationtoken", "wpnonce", "nonce", "formtoken", "formkey", "formbuildid", "securitytoken",
		"wplogintoken", "wpedittoken",
		// Captchas.
		"grecaptcharesponse", "hcaptcharesponse", "cfturnstileresponse", "recaptchatoken", "captchatoken":
		return true
	}
	return false
}
