// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
)

func init() {
	caddy.RegisterModule(new(Provider))
}

// Provider authenticates requests by API keys of the moderation service, for Caddy's authentication handler. The
// user's id is the account; `{http.auth.user.key}` is the key's public id and `{http.auth.user.tier}` the account's
// tier.
//
// It sets the challenge and leaves the body of a refusal to Caddy, which sends none. Use the middleware
// moderation_key_auth to tell clients what is wrong.
type Provider struct {
	// If true, the key is also accepted in the query parameter "key". Default: false.
	Query bool `json:"query,omitempty"`
	// If true, the key is also accepted in the header X-Goog-Api-Key. Default: false.
	GoogleHeader bool `json:"google_header,omitempty"`

	app     *app.App
	sources Sources
}

// CaddyModule returns the Caddy module information.
func (*Provider) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.authentication.providers.moderation_key",
		New: func() caddy.Module { return new(Provider) },
	}
}

// Provision finds the app.
func (p *Provider) Provision(ctx caddy.Context) (err error) {
	p.sources = Sources{Query: p.Query, GoogleHeader: p.GoogleHeader}
	p.app, err = app.LoadWithStore(ctx)
	return err
}

// Authenticate reports who calls. When that cannot be known now, {http.auth.moderation_key.error} says why.
func (p *Provider) Authenticate(w http.ResponseWriter, r *http.Request) (caddyauth.User, bool, error) {
	services, err := p.app.Acquire(r.Context())
	if err != nil {
		return caddyauth.User{}, false, err
	}
	defer services.Release() // a Middleware behind this handler holds them for itself
	call := callOf(r.Context())
	if call == nil {
		call = newCall(r, p.app)
	}
	call.Services = services
	if refusal := call.authenticate(w, r, p.sources); refusal != nil {
		call.CountRefusal(refusal.Code)
		// Caddy would log the error of every request; failures of the store are logged once a second.
		replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		if ok && refusal.Code.Status() >= http.StatusInternalServerError {
			replacer.Set("http.auth.moderation_key.error", refusal.Error())
		}
		return caddyauth.User{}, false, nil
	}
	return caddyauth.User{
		ID:       call.Who.Account.ID,
		Metadata: map[string]string{"key": call.Who.Key.ID, "tier": call.Who.Account.Tier},
	}, true, nil
}

// Interface guards
var (
	_ caddy.Provisioner       = (*Provider)(nil)
	_ caddyauth.Authenticator = (*Provider)(nil)
)
