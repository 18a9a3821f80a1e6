// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// Reactions are routes that are run for a verdict. Inside them the placeholders {http.moderation.*} tell the verdict.
type Reactions struct {
	// The routes to run for what is to be rejected, instead of the refusal. When their handlers do not answer, the
	// refusal follows: what is rejected never goes on by itself. Default: none.
	Reject caddyhttp.RouteList `json:"reject,omitempty"`
	// The routes to run for what a person should look at. When their handlers do not answer, the request goes on.
	// Default: none.
	Review caddyhttp.RouteList `json:"review,omitempty"`
	// The routes to run for everything else that was judged. When their handlers do not answer, the request goes on.
	// Default: none.
	Approve caddyhttp.RouteList `json:"approve,omitempty"`
	// The routes to run, instead of the others, when self-harm is flagged and nothing is rejected for anything else:
	// for the page that helps a person in a crisis. When their handlers do not answer, a rejected request is refused,
	// and any other goes on. Default: none.
	SelfHarm caddyhttp.RouteList `json:"self_harm,omitempty"`
}

// onSelfHarm is the word for [Reactions.SelfHarm] behind "on".
const onSelfHarm = "self-harm"

func (on *Reactions) provision(ctx caddy.Context) error {
	if on == nil {
		return nil
	}
	for name, routes := range map[string]caddyhttp.RouteList{
		"reject": on.Reject, "review": on.Review, "approve": on.Approve, onSelfHarm: on.SelfHarm,
	} {
		if err := routes.Provision(ctx); err != nil {
			return fmt.Errorf("on %s: %w", name, err)
		}
	}
	return nil
}

// routesFor returns the routes for a verdict on a request; nil where there are none.
func (on *Reactions) routesFor(v *verdict) caddyhttp.RouteList {
	if on != nil && on.SelfHarm != nil && v.Crisis() {
		return on.SelfHarm
	}
	return on.routes(v.Recommendation)
}

// routes returns the routes for a recommendation; nil where there are none.
func (on *Reactions) routes(r engine.Recommendation) caddyhttp.RouteList {
	switch {
	case on == nil:
		return nil
	case r == engine.Reject:
		return on.Reject
	case r == engine.Review:
		return on.Review
	case r == engine.Approve:
		return on.Approve
	}
	return nil
}

// reactionOptions are the blocks of "on". They are parsed after everything else, because only a site's helper can parse
// directives.
type reactionOptions struct {
	selfHarm bool // self-harm is one of them
	to       **Reactions
	segments []*caddyfile.Dispenser
	names    []string
}

func (o *reactionOptions) option() options.Option {
	return options.Option{Repeat: true, Parse: func(d *caddyfile.Dispenser) error {
		if !d.NextArg() {
			return d.Err("'on' needs a recommendation and a block: on reject|review|approve { ... }")
		}
		name := d.Val()
		if !slices.Contains(recommendations, engine.Recommendation(name)) && (name != onSelfHarm || !o.selfHarm) {
			return d.Errf("on: there is no recommendation '%s'; there are reject, review and approve%s", name, o.more())
		}
		if slices.Contains(o.names, name) {
			return d.Errf("'on %s' is given twice", name)
		}
		o.names = append(o.names, name)
		// The segment begins with the recommendation, as if that were a directive.
		o.segments = append(o.segments, d.NewFromNextSegment())
		return nil
	}}
}

// more names what there is beside recommendations.
func (o *reactionOptions) more() string {
	if o.selfHarm {
		return ", and self-harm for the page that helps"
	}
	return ""
}

// finish parses the directives of the blocks.
func (o *reactionOptions) finish(h httpcaddyfile.Helper) error {
	for i, d := range o.segments {
		handler, err := httpcaddyfile.ParseSegmentAsSubroute(h.WithDispenser(d))
		if err != nil {
			return err
		}
		subroute, ok := handler.(*caddyhttp.Subroute)
		if !ok || len(subroute.Routes) == 0 {
			return d.Errf("'on %s' needs a block with directives", o.names[i])
		}
		if *o.to == nil {
			*o.to = new(Reactions)
		}
		switch engine.Recommendation(o.names[i]) {
		case engine.Reject:
			(*o.to).Reject = subroute.Routes
		case engine.Review:
			(*o.to).Review = subroute.Routes
		case engine.Approve:
			(*o.to).Approve = subroute.Routes
		default:
			(*o.to).SelfHarm = subroute.Routes
		}
	}
	return nil
}
