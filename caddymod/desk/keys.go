// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// shownKey is a key in the list.
type shownKey struct {
	quota.KeyUsage
	// State is "valid", "replaced" (valid until it expires), "expired", "revoked" or "removed".
	State string
	// Changeable says that it can be rotated and revoked.
	Changeable bool
}

// keysBody is what the page of an account's keys shows.
type keysBody struct {
	Keys     []shownKey
	Declared bool // one of them is declared in the configuration
	// What was typed, where it was refused.
	Name, Environment, Expires, Scope string
	Problem                           *refusal
	// Scopes are what an operator can choose from.
	Scopes []string
}

// stateOf returns the state of a key.
func stateOf(k quota.Key, now time.Time) string {
	switch {
	case k.Revoked != nil:
		return "revoked"
	case k.Expires != nil && !now.Before(*k.Expires):
		return "expired"
	case k.Replaced != nil:
		return "replaced"
	}
	return "valid"
}

// ended reports whether a state is one of those that a key never leaves.
func ended(state string) bool { return state == "revoked" || state == "expired" || state == "removed" }

// listKeys shows the keys of an account.
func listKeys(c *call) error { return c.renderKeys(http.StatusOK, keysBody{}) }

// renderKeys shows the keys of an account, with what a form had.
func (c *call) renderKeys(status int, shown keysBody) error {
	now := c.services.Now().UTC()
	shown.Scopes = quota.Scopes()
	used, err := c.services.Gate.KeyUsage(c.r.Context(), c.account.ID, quota.PeriodOf(c.account.AnchorDay, now))
	if err != nil {
		return err
	}
	for _, k := range used {
		key := shownKey{KeyUsage: k, State: stateOf(k.Key, now)}
		if k.Removed {
			key.State = "removed"
		}
		key.Changeable = !ended(key.State) && !k.Key.Declared
		shown.Keys = append(shown.Keys, key)
		shown.Declared = shown.Declared || k.Key.Declared
	}
	// Keys that work come first, the newest of them before the others.
	slices.SortStableFunc(shown.Keys, func(a, b shownKey) int {
		switch {
		case ended(a.State) != ended(b.State) && ended(b.State):
			return -1
		case ended(a.State) != ended(b.State):
			return 1
		}
		return b.Key.Created.Compare(a.Key.Created)
	})
	c.render(status, page{Template: "keys.html", Title: "keys.title", Tab: "keys", Body: shown})
	return nil
}

// newKeyBody is what is shown once after a key was made.
type newKeyBody struct {
	Secret string
	Key    quota.Key
	// Old is the key that was rotated, nil for a new one.
	Old *quota.Key
	// Curl is a command that uses the key, empty if no address is known at which it would work.
	Curl string
}

// renderSecret answers with a key, for the only time.
func (c *call) renderSecret(shown newKeyBody) error {
	if address, ok := c.textURL(); ok {
		shown.Curl = "curl " + address + " \\\n" +
			"  -H 'Authorization: Bearer " + shown.Secret + "' \\\n" +
			"  -H 'Content-Type: application/json' \\\n" +
			"  -d '{\"content\":\"Hello, world\"}'"
	}
	c.render(http.StatusCreated, page{
		Template: "key.html", Title: "key.title", Tab: "keys", Scripts: []string{"copy.mjs"}, Body: shown,
	})
	return nil
}

// plainURL matches the addresses that can stand in a command of a shell as they are. Others have no quotes, because
// those are escaped in a path.
var plainURL = regexp.MustCompile(`^[A-Za-z0-9.:/%_~-]+$`)

// textURL returns the address at which the API moderates text, as a word of a shell, and whether there is one.
func (c *call) textURL() (string, bool) {
	server, _ := c.r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	address, ok := c.desk.app.TextURL(server, c.origin())
	if ok && !plainURL.MatchString(address) {
		address = "'" + address + "'"
	}
	return address, ok
}

// plainHost matches the hosts that can stand in a command of a shell, perhaps with a port.
var plainHost = regexp.MustCompile(`^(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f.:]+\])(?::[0-9]{1,5})?$`)

// origin returns the scheme and the host that the person has asked for.
func (c *call) origin() *url.URL {
	at := &url.URL{Scheme: "http", Host: c.r.Host}
	if c.r.TLS != nil {
		at.Scheme = "https"
	}
	trusted, _ := caddyhttp.GetVar(c.r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	if forwarded := c.r.Header.Get("X-Forwarded-Proto"); trusted && (forwarded == "http" || forwarded == "https") {
		at.Scheme = forwarded
	}
	if !plainHost.MatchString(at.Host) {
		at.Host = "moderation.example.com"
	}
	return at
}

// createKey makes a key and shows it, once.
func createKey(c *call) error {
	typed := keysBody{
		Name: c.form.Get("name"), Environment: c.form.Get("environment"), Expires: c.form.Get("expires"),
		Scope: c.form.Get("scope"),
	}
	wanted := quota.KeySpec{Account: c.account.ID, Name: typed.Name, Environment: typed.Environment}
	if typed.Scope != "" {
		// A key that decides is given by those who answer for what is decided.
		if !c.person.operator {
			return refuse(http.StatusForbidden, "error.role")
		}
		wanted.Scopes = []string{typed.Scope}
	}
	if typed.Expires != "" {
		day, err := time.Parse(time.DateOnly, typed.Expires)
		if err != nil {
			typed.Problem = refuse(http.StatusBadRequest, "error.date")
			return c.renderKeys(typed.Problem.Status, typed)
		}
		wanted.Expires = &day
	}
	secret, key, err := c.services.Gate.CreateKey(c.r.Context(), wanted)
	if err != nil {
		told, _ := refusalOf(err)
		if told.Status != http.StatusBadRequest {
			return err
		}
		typed.Problem = told
		return c.renderKeys(told.Status, typed)
	}
	c.record(audit.Entry{
		Action: "key.create", Account: c.account.ID, Target: key.ID, Details: app.KeyDetails(&key),
	})
	return c.renderSecret(newKeyBody{Secret: secret, Key: key})
}

// overlaps are how long the old key may stay valid when it is rotated, by what the form sends.
var overlaps = []struct {
	Value    string
	duration time.Duration
}{{"0", 0}, {"1h", time.Hour}, {"24h", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}}

// changeBody is what the pages show that ask before a key is rotated or revoked.
type changeBody struct {
	Key      quota.Key
	State    string
	Overlaps any
}

// ask shows a page that asks before a key is changed.
func (c *call) ask(template, title string) error {
	state := stateOf(c.key, c.services.Now())
	if c.key.Declared {
		return quota.ErrDeclared
	}
	if ended(state) {
		return refuse(http.StatusConflict, "error.ended")
	}
	c.render(http.StatusOK, page{
		Template: template, Title: title, Tab: "keys", Body: changeBody{Key: c.key, State: state, Overlaps: overlaps},
	})
	return nil
}

// askRotate shows the page on which a key is rotated.
func askRotate(c *call) error { return c.ask("rotate.html", "rotate.title") }

// rotateKey makes a key that replaces another one, and shows it, once.
func rotateKey(c *call) error {
	for _, overlap := range overlaps {
		if overlap.Value != c.form.Get("overlap") {
			continue
		}
		made, err := c.services.Gate.RotateKey(c.r.Context(), c.key.ID, overlap.duration)
		if err != nil {
			return err
		}
		c.record(audit.Entry{
			Action: "key.rotate", Account: c.account.ID, Target: c.key.ID,
			Details: map[string]string{"new_key": made.Key.ID, "overlap": overlap.duration.String()},
		})
		return c.renderSecret(newKeyBody{Secret: made.Secret, Key: made.Key, Old: &made.Old})
	}
	return refuse(http.StatusBadRequest, "error.form")
}

// askRevoke shows the page on which a key is revoked.
func askRevoke(c *call) error { return c.ask("revoke.html", "revoke.title") }

// revokeKey revokes a key.
func revokeKey(c *call) error {
	if _, err := c.services.Gate.RevokeKey(c.r.Context(), c.key.ID); err != nil {
		return err
	}
	c.record(audit.Entry{Action: "key.revoke", Account: c.account.ID, Target: c.key.ID})
	return c.done("revoked", "accounts", c.account.ID, "keys")
}
