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

// Reactions are routes that are run for a verdict, which their handlers find in the placeholders {http.moderation.*}.
type Reactions struct {
	// The routes to run for a rejected message, instead of the refusal. If their handlers do not answer, the message is
	// refused: the app never gets it. Default: none.
	Reject caddyhttp.RouteList `json:"reject,omitempty"`
	// The routes to run for a message that a person should review. If their handlers do not answer, it goes on.
	// Default: none.
	Review caddyhttp.RouteList `json:"review,omitempty"`
	// The routes to run for an approved message. If their handlers do not answer, it goes on. Default: none.
	Approve caddyhttp.RouteList `json:"approve,omitempty"`
	// The routes to run, instead of the others, if self-harm is flagged and nothing is rejected for another reason: for
	// a page that helps a person in a crisis. If their handlers do not answer, a rejected request is refused, and any
	// other goes on. Default: none.
	SelfHarm caddyhttp.RouteList `json:"self_harm,omitempty"`
}

// onSelfHarm selects [Reactions.SelfHarm] in the Caddyfile: "on self-harm".
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

// reactionOptions are the blocks of "on". They are parsed last, by [reactionOptions.finish], because only the helper of
// a site can parse directives.
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

// more names the values of "on" that are no recommendations.
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
