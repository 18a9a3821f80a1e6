// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/body"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/sessions"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

// call is a request on its way to its answer.
type call struct {
	desk   *Desk
	w      http.ResponseWriter
	r      *http.Request
	words  words
	person person
	// root is the path of the first page as the browser sees it, without a slash at its end.
	root string
	// path is the path below the base path.
	path   string
	values map[string]string // of the path
	form   url.Values        // of a POST

	session  *sessions.Session // nil unless the person has signed in with a link
	services *app.Services     // nil until they are acquired
	account  quota.Account     // if the path names one
	key      quota.Key         // if the path names one
}

// formTimeout is how long a form may take to arrive.
const formTimeout = 30 * time.Second

// contentPolicy is the Content-Security-Policy of all answers: nothing from elsewhere, and nothing inline.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// serve answers a request for a path below the base path.
func (d *Desk) serve(w http.ResponseWriter, r *http.Request, path string) {
	header := w.Header()
	header.Set("Content-Security-Policy", contentPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY") // browsers that do not know frame-ancestors
	// With no-referrer, browsers would send the forms with the origin null, which readForm refuses wherever there is no
	// Sec-Fetch-Site: on a page without TLS (Fetch, "append a request Origin header").
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	header.Add("Vary", "Accept-Language")
	c := &call{
		desk: d, w: w, r: r, path: path, words: wordsFor(r.Header.Values("Accept-Language")),
		person: d.person(r), root: d.rootOf(r),
	}
	defer c.release()
	if path == "" && r.Method != http.MethodPost {
		c.redirect("/")
		return
	}
	err := c.recognize()
	var found *route
	if err == nil {
		found, err = c.admit()
	}
	if err == nil {
		err = found.serve(c)
	}
	if err != nil {
		c.fail(err)
	}
}

// admit returns the route of the request, once everything that its route needs is there: the role, the origin, the
// form, the account and the key. No route is served in any other way, except that who has no role is asked to sign in
// where that is possible.
func (c *call) admit() (*route, error) {
	found, values, allowed := find(c.r.Method, c.path)
	if (found == nil || found.needs != anyone) && !c.person.has(somebody, "") {
		if c.desk.Tokens && c.r.Method == http.MethodGet {
			return &route{serve: askSignIn}, nil
		}
		if c.desk.Tokens && c.person.name == "" {
			return nil, refuse(http.StatusForbidden, "error.session")
		}
		return nil, refuse(http.StatusForbidden, "error.nobody")
	}
	if found == nil && len(allowed) > 0 {
		c.w.Header().Set("Allow", strings.Join(allowed, ", "))
		return nil, refuse(http.StatusMethodNotAllowed, "error.method")
	}
	if found == nil {
		return nil, refuse(http.StatusNotFound, "error.missing")
	}
	c.values = values
	if !c.person.has(found.needs, values["account"]) {
		if found.needs == member {
			// Nobody learns which accounts there are.
			return nil, refuse(http.StatusNotFound, "error.missing")
		}
		return nil, refuse(http.StatusForbidden, "error.role")
	}
	if found.method == http.MethodPost {
		if err := c.readForm(found.limit); err != nil {
			return nil, err
		}
	}
	return found, c.load(found)
}

// readForm reads the form of a POST, which must come from a page of this site.
func (c *call) readForm(limit int64) error {
	if err := c.desk.crossing.Check(c.r); err != nil {
		return refuse(http.StatusForbidden, "error.crossing")
	}
	media, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || media != "application/x-www-form-urlencoded" {
		return refuse(http.StatusUnsupportedMediaType, "error.form")
	}
	received, err := body.Read(c.w, c.r, limit, formTimeout)
	if err != nil {
		status := body.Problem(c.w.Header(), err).Code.Status()
		if errors.Is(err, body.ErrTooLarge) {
			return refuse(status, "error.large")
		}
		return refuse(status, "error.form")
	}
	defer received.Release()
	if c.form, err = url.ParseQuery(string(received.Bytes())); err != nil {
		return refuse(http.StatusBadRequest, "error.form")
	}
	for _, values := range c.form {
		for _, value := range values {
			if !utf8.ValidString(value) {
				return refuse(http.StatusBadRequest, "error.form")
			}
		}
	}
	return nil
}

// load acquires the services and reads the account and the key that the path names. A key of another account is none.
func (c *call) load(found *route) error {
	account, named := c.values["account"]
	if !named && !found.store {
		return nil
	}
	var err error
	if c.services, err = c.desk.app.Acquire(c.r.Context()); err != nil {
		return err
	}
	if !named {
		return nil
	}
	ctx := c.r.Context()
	if err := quota.ValidateID(account); err != nil {
		return quota.ErrNotFound
	}
	if c.account, err = c.services.Gate.Account(ctx, account); err != nil {
		return err
	}
	key, named := c.values["key"]
	if !named {
		return nil
	}
	if err := quota.ValidateID(key); err != nil {
		return quota.ErrNotFound
	}
	if c.key, err = c.services.Gate.Key(ctx, key); err == nil && c.key.Account != c.account.ID {
		return quota.ErrNotFound
	}
	return err
}

// release gives the services back.
func (c *call) release() {
	c.services.Release()
	c.services = nil
}

// rootOf returns the path of the first page as the browser sees it. A handle_path around the handler has stripped the
// beginning of the path that was asked for.
func (d *Desk) rootOf(r *http.Request) string {
	asked := r.URL.Path
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && original.URL != nil {
		asked = original.URL.Path
	}
	stripped, ok := strings.CutSuffix(asked, r.URL.Path)
	switch {
	case ok:
	case r.URL.Path == "/" && d.base == "":
		stripped = asked // /desk, of which nothing is left but the slash that Caddy puts there
	default:
		stripped = "" // rewritten to something else
	}
	// A path that begins with two slashes would be another host.
	root := strings.Trim(stripped, "/") + d.base
	if root == "" {
		return ""
	}
	return (&url.URL{Path: "/" + strings.TrimLeft(root, "/")}).EscapedPath()
}

// url returns the path of a page as the browser sees it.
func (c *call) url(segments ...string) string {
	var b strings.Builder
	b.WriteString(c.root)
	for _, segment := range segments {
		if segment != "" {
			b.WriteByte('/')
			b.WriteString(url.PathEscape(segment))
		}
	}
	if b.Len() == len(c.root) {
		b.WriteByte('/')
	}
	return b.String()
}

// redirect answers a request by sending the browser to a path below the base path.
func (c *call) redirect(path string) {
	c.w.Header().Set("Location", c.root+path)
	c.w.WriteHeader(http.StatusSeeOther)
}

// done sends the browser from a form to the page that shows what has changed; what names the message there.
func (c *call) done(what string, segments ...string) error {
	c.w.Header().Set("Location", c.url(segments...)+"?done="+what)
	c.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// refusal is an answer that is an error of the person's doing. It carries no content.
type refusal struct {
	Status int
	Text   string // names the explanation
	// Detail is what the service says in English about an input, if it does.
	Detail string
}

// Error returns what is logged where a refusal is logged.
func (e *refusal) Error() string { return fmt.Sprintf("%d %s", e.Status, e.Text) }

func refuse(status int, text string) *refusal { return &refusal{Status: status, Text: text} }

// refusalOf returns what a person is told about an error, and whether the operator should know of it.
func refusalOf(err error) (told *refusal, strange bool) {
	switch {
	case errors.As(err, &told):
		return told, false
	case errors.Is(err, quota.ErrNotFound):
		return refuse(http.StatusNotFound, "error.missing"), false
	case errors.Is(err, quota.ErrInvalid):
		return &refusal{http.StatusBadRequest, "error.invalid", message(err)}, false
	case errors.Is(err, quota.ErrExists), errors.Is(err, quota.ErrReplaced):
		return &refusal{http.StatusConflict, "error.conflict", message(err)}, false
	case errors.Is(err, quota.ErrDeclared):
		return refuse(http.StatusConflict, "error.declared"), false
	case errors.Is(err, storage.ErrDamaged):
		return refuse(http.StatusInternalServerError, "error.damaged"), true
	case errors.Is(err, app.ErrStarting):
		return refuse(http.StatusServiceUnavailable, "error.starting"), false
	case errors.Is(err, storage.ErrReadOnly):
		return refuse(http.StatusServiceUnavailable, "error.readonly"), false
	case errors.Is(err, storage.ErrUnavailable):
		return refuse(http.StatusServiceUnavailable, "error.store"), true
	}
	return refuse(http.StatusInternalServerError, "error.server"), true
}

// message returns the text of an error of the gate: "invalid: tier ..." says no more than "tier ...".
func message(err error) string { return strings.TrimPrefix(err.Error(), quota.ErrInvalid.Error()+": ") }

// retryAfter is when a page asks again because the store did not answer, in seconds.
const retryAfter = 5

// fail answers with a page about an error.
func (c *call) fail(err error) {
	told, strange := refusalOf(err)
	if told.Text == "error.store" && c.r.Method == http.MethodPost {
		told = refuse(told.Status, "error.unkept")
	}
	if strange && c.r.Context().Err() == nil {
		c.desk.app.Logger().Error("showing a page of the desk", zap.Error(err))
	}
	again := 0
	if told.Status == http.StatusServiceUnavailable {
		c.w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		if c.r.Method != http.MethodPost {
			again = retryAfter // what a form would do is not done again
		}
	}
	type failure struct {
		Status               int
		Text, Detail, Name   string
		Nobody, Again, Roles bool
		Queue, SignIn        bool // where the page leads to
	}
	nobody := told.Text == "error.nobody"
	c.render(told.Status, page{Template: "error.html", Title: told.Text + ".title", Refresh: again, Body: failure{
		Status: told.Status, Text: told.Text, Detail: told.Detail, Nobody: nobody && c.person.name == "",
		Name: c.person.name, Again: again > 0, Roles: nobody,
		Queue:  c.within("/review") && c.person.has(reviewer, "") && told.Text != "error.noqueue",
		SignIn: told.Text == "error.session",
	}})
}
