// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/cors"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/directive"
	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
)

func init() {
	directive.HandlerWithPath[API]("moderation_api")
	directive.Handler[Text]("moderation_text")
	directive.Handler[Usage]("moderation_usage")
	for _, name := range []string{"moderation_api", "moderation_text", "moderation_usage"} {
		httpcaddyfile.RegisterDirectiveOrder(name, httpcaddyfile.Before, "respond")
	}
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	moderation_api [@<matcher>] [<base path>] {
//		scoring_path <segment>
//		body_timeout <duration>
//		cors_origins <origin>...
//		analyze {
//			attribute <name> <score|off>
//			unscored  omit|error
//			languages <tag>...
//		}
//		openai {
//			max_inputs     <n>
//			max_characters <n>
//			max_body       <size>
//			body_timeout   <duration>
//		}
//	}
func (a *API) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		a.BasePath = d.Val()
		if err := directive.CheckBasePath(a.BasePath); err != nil {
			return d.Err(err.Error())
		}
	}
	return options.Block(d, "moderation_api", map[string]options.Option{
		"scoring_path": {Parse: func(d *caddyfile.Dispenser) error {
			if err := options.Text(&a.ScoringPath, "<segment>").Parse(d); err != nil {
				return err
			}
			if err := checkScoringPath(a.ScoringPath); err != nil {
				return d.Err(err.Error())
			}
			return nil
		}},
		"body_timeout": options.Duration(&a.BodyTimeout),
		"cors_origins": cors.Option(&a.CORSOrigins),
		"analyze": {Parse: func(d *caddyfile.Dispenser) error {
			return options.Block(d, "analyze", a.Analyze.Options())
		}},
		"openai": {Parse: func(d *caddyfile.Dispenser) error {
			return options.Block(d, "openai", a.OpenAI.Options())
		}},
	})
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	moderation_text [<matcher>] {
//		body_timeout <duration>
//	}
func (t *Text) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	return options.Block(d, "moderation_text", map[string]options.Option{
		"body_timeout": options.Duration(&t.BodyTimeout),
	})
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	moderation_usage [<matcher>]
func (u *Usage) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	return options.Block(d, "moderation_usage", nil)
}

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*API)(nil)
	_ caddyfile.Unmarshaler = (*Text)(nil)
	_ caddyfile.Unmarshaler = (*Usage)(nil)
)
