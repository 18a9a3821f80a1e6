// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"net/url"
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/directive"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
)

func init() {
	directive.Handler[Compare]("moderation_compare")
	httpcaddyfile.RegisterDirectiveOrder("moderation_compare", httpcaddyfile.Before, "reverse_proxy")
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	moderation_compare [<matcher>] <upstream> {
//		thresholds <number>...       # default 0.5 0.7 0.8 0.9
//	}
//
// The upstream is the address of the service to compare with, such as https://commentanalyzer.googleapis.com or
// https://api.openai.com. Requests to it have its own name in the Host header.
func (c *Compare) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if !d.NextArg() {
		return d.Err("'moderation_compare' needs 1 argument: moderation_compare <upstream>")
	}
	upstream := d.Val()
	parsed, err := url.Parse(upstream)
	if err != nil || parsed.Scheme != "https" && parsed.Scheme != "http" ||
		parsed.Host == "" || parsed.Path != "" || parsed.RawQuery != "" || parsed.User != nil {
		return d.Errf("moderation_compare: '%s' must be the address of a server, "+
			"such as https://commentanalyzer.googleapis.com", upstream)
	}
	if err := c.proxyTo(parsed); err != nil {
		return d.Errf("moderation_compare: %v", err)
	}
	return options.Block(d, "moderation_compare", map[string]options.Option{
		"thresholds": {Parse: func(d *caddyfile.Dispenser) error {
			args := d.RemainingArgs()
			if len(args) == 0 {
				return d.Err("'thresholds' needs at least 1 argument: thresholds <number>...")
			}
			for _, arg := range args {
				threshold, err := strconv.ParseFloat(arg, 64)
				if err != nil {
					return d.Errf("thresholds: '%s' is no number", arg)
				}
				c.Thresholds = append(c.Thresholds, threshold)
			}
			if err := checkThresholds(c.Thresholds); err != nil {
				return d.Err(err.Error())
			}
			return nil
		}},
	})
}

// proxyTo sets the handler that forwards to an upstream, as the directive reverse_proxy would.
func (c *Compare) proxyTo(upstream *url.URL) error {
	directive := "reverse_proxy " + upstream.String() + " {\n\theader_up Host " + upstream.Host + "\n}"
	tokens, err := caddyfile.Tokenize([]byte(directive), "moderation_compare")
	if err != nil {
		return err
	}
	proxy := new(reverseproxy.Handler)
	if err := proxy.UnmarshalCaddyfile(caddyfile.NewDispenser(tokens)); err != nil {
		return err
	}
	c.ProxyRaw = caddyconfig.JSONModuleObject(proxy, "handler", "reverse_proxy", nil)
	return nil
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Compare)(nil)
