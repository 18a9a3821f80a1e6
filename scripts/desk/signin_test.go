// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/sessions"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// Doors is a storage module with a store in memory that the test has, too.
type Doors struct{}

// door is that store.
var door = storagetest.NewMemory()

// CaddyModule returns the Caddy module information.
func (*Doors) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "moderation.storage.doors", New: func() caddy.Module { return new(Doors) }}
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens; it has no options.
func (*Doors) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

// Identity names the place.
func (*Doors) Identity() (string, error) { return "doors:", nil }

// Open returns the store.
func (*Doors) Open(context.Context, *zap.Logger) (storage.Store, error) { return door, nil }

func init() { caddy.RegisterModule(new(Doors)) }

// TestSignIn opens links as people do, with and without JavaScript, and signs out.
func TestSignIn(t *testing.T) {
	site := freeSite(t)
	loadConfig(t, `{
	admin off
	persist_config off
	log {
		output discard
	}
	moderation {
		storage doors
		demo off
		account acme {
			tier starter
		}
	}
}
`+site+` {
	moderation_desk /desk {
		tokens
	}
}
`)
	links := &sessions.Sessions{Store: door, Now: time.Now, Random: rand.Reader}
	link := func() string {
		t.Helper()
		token, _, err := links.Link(t.Context(), sessions.Person{User: "carol", Accounts: []string{"acme"}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	b := open(t, site, "")
	token := link()
	for _, width := range []int64{360, 1200} {
		for _, dark := range []bool{false, true} {
			b.size(width, 800, dark)
			b.visit("/desk/sign-in")
			b.usable(t, fmt.Sprintf("the page to sign in at %d, dark: %v", width, dark))
		}
	}
	b.do(chromedp.Navigate("about:blank"))
	b.visit("/desk/sign-in#" + token)
	b.await("the token in the form", `document.querySelector("#token").value.length === 43 && location.hash === ""`)
	b.do(chromedp.Click(chromedp.CSS(submit)), chromedp.WaitVisible(chromedp.CSS(".person")))
	if path := evaluate[string](b, "location.pathname"); path != "/desk/accounts/acme" {
		t.Errorf("got to %s", path)
	}
	if cookie := evaluate[string](b, "document.cookie"); cookie != "" {
		t.Errorf("a script can read the cookie %q", cookie)
	}
	b.usable(t, "a page of somebody who has signed in")
	b.do(chromedp.Click(chromedp.CSS(`form[action$="sign-out"] button`)), chromedp.WaitVisible(chromedp.CSS("#token")))
	b.calm()
	// A used link, by paste and without JavaScript; then a new one.
	send(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.visit("/desk/sign-in")
	b.do(chromedp.SetValue(chromedp.CSS("#token"), site+"/desk/sign-in#"+token), chromedp.Click(chromedp.CSS(submit)),
		chromedp.WaitVisible(chromedp.CSS("#wrong")))
	b.mu.Lock()
	b.troubles = nil // the answer 403
	b.mu.Unlock()
	b.do(chromedp.SetValue(chromedp.CSS("#token"), site+"/desk/sign-in#"+link()), chromedp.Click(chromedp.CSS(submit)),
		chromedp.WaitVisible(chromedp.CSS(".person")))
	b.calm()
}
