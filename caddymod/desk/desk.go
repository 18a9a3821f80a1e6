// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package desk serves the pages on which people look after the service: the usage and the keys of their account, a
// playground, and for operators the accounts and the configuration.
//
// The pages are made on the server, from templates that are embedded in the binary, and ask no other server for
// anything. Everything that a request may do is in one table, see [routes]: a new page is a row there, a template, and
// its words in a file texts_*.json.
package desk

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	// It registers its directive first, so that the desk's takes its place before it: a guard of the whole site must
	// not judge the texts of the playground.
	_ "github.com/caddy-moderation/caddy-moderation/caddymod/guard"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/directive"
)

func init() {
	caddy.RegisterModule(new(Desk))
	directive.HandlerWithPath[Desk]("moderation_desk")
	// Before it is known who the person is, there is nothing to show.
	httpcaddyfile.RegisterDirectiveOrder("moderation_desk", httpcaddyfile.After, "forward_auth")
}

// Bounds of what the pages cost.
const (
	// maxStreams is how many pages may show live figures at once, and maxPersonStreams how many of one person.
	maxStreams       = 64
	maxPersonStreams = 16
	// maxJudging is how many texts of playgrounds are judged at once; others wait for judgeWait.
	maxJudging = 2
	judgeWait  = 5 * time.Second
	// gaugeInterval is how often the gauge of a page is read.
	gaugeInterval = time.Second
)

// Desk is a handler that serves pages for people: the usage, the keys and a playground of each account, and for
// operators all accounts, the health of the service and its configuration.
//
// It does not ask for passwords. Who a person is, is known from a placeholder that a handler before it sets, such as
// {http.auth.user.id} of basic_auth, or a header that forward_auth copies. The lists of operators, members and
// reviewers say what each person may do; who is in none of them gets nothing but a page that says so. Or people sign in
// with links that a command makes. A configuration in which nobody could have a role is refused. In a Caddyfile the
// directive stands after basic_auth and forward_auth.
//
// All pages are below the base path. Requests for other paths go to the next handler. Inside of handle_path the links
// begin with what it has stripped.
//
// The pages send nothing to other servers, keep no session unless people sign in with links, and change something only
// by a POST that comes from themselves. They work without JavaScript, except for the live gauge, the copy buttons and
// the sliders of the playground. The languages are English, German, Spanish and French, as Accept-Language wants.
type Desk struct {
	// The path below which the pages are, such as "/desk". Default: "/".
	BasePath string `json:"base_path,omitempty"`

	// The persons who may see and do everything.
	Operators []People `json:"operators,omitempty"`

	// The persons who may see and do what concerns their own account. A person can be a member of several.
	Members []Members `json:"members,omitempty"`

	// The persons who may decide what is in the review queue.
	Reviewers []People `json:"reviewers,omitempty"`

	// Whether people can also sign in with links that work once, which "caddy moderation desk link" makes with the roles
	// of a person. A session lasts for 12 hours, or until the person signs out. Default: false.
	Tokens bool `json:"tokens,omitempty"`

	app      *app.App
	base     string // without a slash at its end
	now      func() time.Time
	interval time.Duration
	crossing http.CrossOriginProtection

	streams streams
	judging chan struct{} // holds as many as are judged
	reports qualityReports
	// ended is closed when the configuration is replaced.
	ended   chan struct{}
	endOnce sync.Once
}

// People are persons, by the value of a placeholder.
type People struct {
	// The placeholder whose value says who a person is, such as "{http.auth.user.id}". An empty value is nobody.
	// Required.
	Placeholder string `json:"placeholder"`

	// The values. They are compared exactly. Required.
	Users []string `json:"users"`
}

// Members are the members of accounts, by the value of a placeholder.
type Members struct {
	// The placeholder whose value says who a person is, such as "{http.auth.user.id}". An empty value is nobody.
	// Required.
	Placeholder string `json:"placeholder"`

	// The values, by the id of the account whose members they are. They are compared exactly. Required.
	Accounts map[string][]string `json:"accounts"`
}

// CaddyModule returns the Caddy module information.
func (*Desk) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.moderation_desk",
		New: func() caddy.Module { return new(Desk) },
	}
}

// errNobody is the error of a configuration that gives nobody a role.
var errNobody = errors.New("moderation_desk: nobody could use it; " +
	"say with operator, member or reviewer who may, such as: operator {http.auth.user.id} alice; or let people sign in " +
	"with links by the option tokens")

// Provision finds the app. It refuses a configuration in which nobody has a role.
func (d *Desk) Provision(ctx caddy.Context) error {
	if len(d.Operators)+len(d.Members)+len(d.Reviewers) == 0 && !d.Tokens {
		return errNobody
	}
	owner, err := app.LoadWithStore(ctx)
	if err != nil {
		return err
	}
	d.app, d.now = owner, owner.Now
	if d.Tokens {
		owner.LetSignIn()
	}
	d.base = strings.TrimSuffix(d.BasePath, "/")
	d.interval = gaugeInterval
	d.judging = make(chan struct{}, maxJudging)
	d.ended = make(chan struct{})
	return nil
}

// Validate checks the configuration.
func (d *Desk) Validate() error {
	if err := directive.CheckBasePath(d.BasePath); err != nil {
		return err
	}
	for _, people := range d.Operators {
		if err := people.check("operator"); err != nil {
			return err
		}
	}
	for _, people := range d.Reviewers {
		if err := people.check("reviewer"); err != nil {
			return err
		}
	}
	for _, members := range d.Members {
		if err := members.check(); err != nil {
			return err
		}
	}
	return nil
}

// Cleanup ends the streams, whose pages then ask the next configuration.
func (d *Desk) Cleanup() error {
	if d.ended != nil {
		d.endOnce.Do(func() { close(d.ended) })
	}
	return nil
}

// Holds reports whether a path is one of the desk's. It implements [app.PathHolder].
func (d *Desk) Holds(path string) bool {
	below, ok := strings.CutPrefix(path, d.base)
	return ok && (below == "" || below[0] == '/')
}

// ServeHTTP serves the pages below the base path and leaves all other paths to the next handler.
func (d *Desk) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if !d.Holds(r.URL.Path) {
		return next.ServeHTTP(w, r)
	}
	d.serve(w, r, strings.TrimPrefix(r.URL.Path, d.base))
	return nil
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Desk)(nil)
	_ caddy.Validator             = (*Desk)(nil)
	_ caddy.CleanerUpper          = (*Desk)(nil)
	_ caddyhttp.MiddlewareHandler = (*Desk)(nil)
	_ app.PathHolder              = (*Desk)(nil)
)
