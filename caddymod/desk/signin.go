// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/sessions"
)

// signInRoutes returns what a request may do to begin and end a session. Without the option tokens there are no such
// pages.
func signInRoutes() []route {
	const get, post = http.MethodGet, http.MethodPost
	return []route{
		// Who signs in has no role yet. These pages say nothing about the service.
		{method: get, pattern: signInPath, needs: anyone, serve: askSignIn},
		{method: post, pattern: signInPath, needs: anyone, limit: smallForm, store: true, serve: signIn},
		{method: post, pattern: "/sign-out", needs: somebody, limit: smallForm, store: true, serve: signOut},
	}
}

const (
	// signInPath is the page on which a token is used. A link has the token behind a #, so that no server sees it.
	signInPath = "/sign-in"
	// sessionCookie is the cookie with the secret of a session.
	sessionCookie = "moderation_desk"
	// maxCookies is how many cookies of this name are tried: that of a desk above has the same.
	maxCookies = 3
)

// recognize finds the session of the person, and adds its roles to those that the person has already. Who is an
// operator without it needs no store for that, as some pages are about a store that is gone.
func (c *call) recognize() error {
	if !c.desk.Tokens || strings.HasPrefix(c.path, "/assets/") {
		return nil
	}
	if !c.person.operator {
		return c.findSession(c.r.Context())
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), readyTimeout)
	defer cancel()
	_ = c.findSession(ctx)
	return nil
}

func (c *call) findSession(ctx context.Context) error {
	cookies := c.r.CookiesNamed(sessionCookie)
	if len(cookies) == 0 {
		return nil
	}
	services, err := c.desk.app.Acquire(ctx)
	if err != nil {
		return err
	}
	defer services.Release()
	for _, cookie := range cookies[:min(len(cookies), maxCookies)] {
		session, err := services.Sessions.Find(ctx, cookie.Value)
		if errors.Is(err, sessions.ErrUnknown) {
			continue
		}
		if err != nil {
			return err
		}
		c.session = &session
		c.person.join(&session)
		break
	}
	return nil
}

// join adds the roles of a session. The name stays that of a placeholder, if that has given a role.
func (p *person) join(s *sessions.Session) {
	if !p.has(somebody, "") {
		p.name = s.User
	}
	p.operator, p.reviewer = p.operator || s.Operator, p.reviewer || s.Reviewer
	p.accounts = append(slices.Clone(p.accounts), s.Accounts...)
	slices.Sort(p.accounts)
	p.accounts = slices.Compact(p.accounts)
}

// signInBody is what the page shows.
type signInBody struct {
	// Wrong says that a token is of no use.
	Wrong bool
}

// askSignIn shows the form for a token.
func askSignIn(c *call) error {
	if !c.desk.Tokens {
		return refuse(http.StatusNotFound, "error.missing")
	}
	status := http.StatusOK
	if c.path != signInPath {
		status = http.StatusForbidden // of another page, which is shown after the person has signed in
	}
	c.renderSignIn(status, signInBody{})
	return nil
}

func (c *call) renderSignIn(status int, shown signInBody) {
	c.render(status, page{Template: "signin.html", Title: "signin.title", Scripts: []string{"signin.mjs"}, Body: shown})
}

// signIn begins a session with a token, whoever the person was before.
func signIn(c *call) error {
	if !c.desk.Tokens {
		return refuse(http.StatusNotFound, "error.missing")
	}
	token := strings.TrimSpace(c.form.Get("token"))
	// Who pastes the whole link means the token in it.
	token = token[strings.LastIndexByte(token, '#')+1:]
	secret, session, err := c.services.Sessions.Begin(c.r.Context(), token)
	if errors.Is(err, sessions.ErrUnknown) {
		c.renderSignIn(http.StatusForbidden, signInBody{Wrong: true})
		return nil
	}
	if err != nil {
		return err
	}
	c.services.Audit.Record(c.r.Context(), audit.Entry{
		Via: audit.Desk, Actor: session.User, Operator: session.Operator, Action: "session.begin", Target: session.ID,
	})
	c.setCookie(secret, session.Until.Sub(session.Since))
	c.redirect("/")
	return nil
}

// signOut ends the session.
func signOut(c *call) error {
	for _, cookie := range c.r.CookiesNamed(sessionCookie) {
		if err := c.services.Sessions.End(c.r.Context(), cookie.Value); err != nil {
			return err
		}
	}
	if c.session != nil {
		c.services.Audit.Record(c.r.Context(), audit.Entry{
			Via: audit.Desk, Actor: c.session.User, Operator: c.session.Operator, Action: "session.end", Target: c.session.ID,
		})
	}
	c.setCookie("", -1)
	c.redirect(signInPath)
	return nil
}

// setCookie sets the cookie of a session, or removes it if its life is negative. It is sent to the pages of this desk
// alone, and over TLS alone if that is how the person has asked. It is Lax, so that links from elsewhere lead to a page
// and not to a form; what changes something is checked by [call.readForm].
func (c *call) setCookie(secret string, life time.Duration) {
	maxAge := int(life / time.Second)
	if life < 0 {
		maxAge = -1
	}
	http.SetCookie(c.w, &http.Cookie{
		Name: sessionCookie, Value: secret, Path: c.root + "/", MaxAge: maxAge, HttpOnly: true,
		SameSite: http.SameSiteLaxMode, Secure: c.origin().Scheme == "https",
	})
}
