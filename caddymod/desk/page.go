// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

//go:embed templates/*.html
var templateFiles embed.FS

// templates are the pages by the names of their files. Each has the layout around it.
var templates = sync.OnceValue(func() map[string]*template.Template {
	files, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err) // the files are in the binary
	}
	all := map[string]*template.Template{}
	for _, file := range files {
		all[file.Name()] = template.Must(template.ParseFS(templateFiles, "templates/layout.html", "templates/"+file.Name()))
	}
	return all
})

// page is what a template is executed with. Its methods say things in the language of the page.
type page struct {
	// Template is the file, and Title names the text of the title.
	Template, Title string
	// Body is what the page itself shows.
	Body any
	// Refresh is after how many seconds the browser asks again; 0 is never. With scripts, the page is only loaded
	// again if it is another one by then.
	Refresh int
	// Scripts are the modules of JavaScript that the page needs.
	Scripts []string
	// Account is set on pages of an account, and Tab is the one that is open.
	Account *quota.Account
	Tab     string

	call *call
}

// render answers with a page.
func (c *call) render(status int, p page) {
	p.call = c
	if c.account.ID != "" && p.Template != "error.html" {
		p.Account = &c.account
	}
	var b bytes.Buffer
	if err := templates()[p.Template].ExecuteTemplate(&b, "layout.html", &p); err != nil {
		c.desk.app.Logger().Error("making a page of the desk", zap.String("template", p.Template), zap.Error(err))
		response.Send(c.w, c.r, http.StatusInternalServerError, "text/plain; charset=utf-8",
			[]byte(http.StatusText(http.StatusInternalServerError)+"\n"))
		return
	}
	c.w.Header().Set("Content-Language", c.words.tag)
	response.Send(c.w, c.r, status, "text/html; charset=utf-8", b.Bytes())
}

// Lang is the language of the page, as a BCP 47 tag.
func (p *page) Lang() string { return p.call.words.tag }

// T returns a text. {0}, {1} and so on are replaced by the arguments.
func (p *page) T(key string, arguments ...any) (string, error) {
	return p.call.words.say(key, arguments...)
}

// N returns a whole number as people of the language write it.
func (p *page) N(n int64) string { return p.call.words.number(n) }

// Count is N for a number of items.
func (p *page) Count(n int) string { return p.call.words.number(int64(n)) }

// With returns the page with another body, for a template that shows a part of it.
func (p *page) With(body any) *page {
	part := *p
	part.Body = body
	return &part
}

// P returns a probability in percent.
func (p *page) P(share float64) string { return p.call.words.percent(share) }

// Limit returns a limit, of which 0 means none.
func (p *page) Limit(n int64) string {
	if n == 0 {
		return p.call.words.must("unlimited")
	}
	return p.N(n)
}

// Date returns a day in UTC, and Instant a minute.
func (p *page) Date(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Instant returns a point in time, to the minute, in UTC.
func (p *page) Instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") + " UTC" }

// Machine returns a point in time for programs.
func (p *page) Machine(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// URL returns the path of a page.
func (p *page) URL(segments ...string) string { return p.call.url(segments...) }

// Asset returns the path of an embedded file.
func (p *page) Asset(name string) (string, error) {
	hashed, ok := assets().names[name]
	if !ok {
		return "", fmt.Errorf("there is no asset %s", name)
	}
	return p.call.url("assets", hashed), nil
}

// Category returns the name of a category.
func (p *page) Category(name string) string { return p.call.words.must("category." + name) }

// Status returns a subscription status; those that the service does not know are shown as they are.
func (p *page) Status(status quota.Status) string {
	if text, err := p.call.words.say("status." + string(status)); err == nil {
		return text
	}
	return string(status)
}

// Done returns the text that says what a form has changed, or nothing.
func (p *page) Done() string {
	if text, err := p.call.words.say("done." + p.call.r.URL.Query().Get("done")); err == nil {
		return text
	}
	return ""
}

// Operator reports whether the person is one.
func (p *page) Operator() bool { return p.call.person.operator }

// SignedIn reports whether the person has signed in with a link, and can sign out.
func (p *page) SignedIn() bool { return p.call.session != nil }

// Person is who looks at the page, empty if nobody knows.
func (p *page) Person() string { return p.call.person.name }

// Known reports whether the person has a role.
func (p *page) Known() bool { return p.call.person.has(somebody, "") }

// Switch returns the accounts that a member of several can switch to.
func (p *page) Switch() []string {
	if len(p.call.person.accounts) > 1 || p.call.person.operator {
		return p.call.person.accounts
	}
	return nil
}

// link is an entry of a navigation.
type link struct {
	URL, Text string
	Current   bool
}

// Navigation returns what the head of the page leads to.
func (p *page) Navigation() (links []link) {
	for _, entry := range navigation {
		served, _, _ := find(http.MethodGet, entry.path)
		if served == nil || !p.call.person.has(entry.needs, "") ||
			entry.path == "/review" && p.call.desk.withoutQueue() {
			continue
		}
		links = append(links, link{
			URL: p.call.root + entry.path, Text: p.call.words.must(entry.text), Current: p.call.within(entry.path),
		})
	}
	return links
}

// within reports whether the page is the one of a path, or one that is below it.
func (c *call) within(path string) bool {
	return c.path == path || path != "/" && strings.HasPrefix(c.path, path+"/")
}

// Tabs returns what the pages of an account lead to.
func (p *page) Tabs() (links []link) {
	for _, tab := range tabs {
		links = append(links, link{
			URL: p.URL("accounts", p.Account.ID, tab.path), Text: p.call.words.must(tab.text), Current: p.Tab == tab.path,
		})
	}
	return links
}

// share returns the part of a limit that is used, in percent from 0 to 100. Without a limit it is 0.
func share(used, limit int64) string {
	if limit <= 0 {
		return "0"
	}
	return strings.TrimSuffix(strconv.FormatFloat(min(100, 100*float64(used)/float64(limit)), 'f', 1, 64), ".0")
}
