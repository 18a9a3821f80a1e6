// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"errors"
	"html/template"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
	responsewriter "github.com/caddy-moderation/caddy-moderation/caddymod/internal/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// refuseFor refuses a request that exceeds a limit, is broken or ambiguous, or an upload whose rest could not be
// moderated.
func (m *Moderate) refuseFor(w http.ResponseWriter, r *http.Request, x *exchange, cause error) error {
	code, detail := problem.IncompleteBody, "The body ended too early, or cannot be read."
	switch extract.RefuseReason(cause) {
	case extract.ReasonTooLarge:
		code, detail = problem.BodyTooLarge, m.Limits.Describe(cause)
	case extract.ReasonTooLong:
		code, detail = problem.TextTooLong, m.Limits.Describe(cause)
	case extract.ReasonAmbiguous:
		code, detail = problem.AmbiguousBody, "Programs may read different texts in this body. "+
			"A multipart form needs one plain boundary, and a body one charset."
	case extract.ReasonTimeout:
		code, detail = problem.RequestTimeout, "The body did not arrive in time."
	}
	if errors.Is(cause, errUnjudged) {
		code, detail = problem.NotJudged, unjudgedDetail
	}
	x.body.Linger(w, r)
	return m.refuse(w, r, x.id, problem.New(code, detail))
}

const unjudgedDetail = "The text could not be judged now. Try again."

// refuseUnjudged refuses a request that could not be moderated.
func (m *Moderate) refuseUnjudged(w http.ResponseWriter, r *http.Request, x *exchange, v *verdict) error {
	x.body.Linger(w, r)
	code, detail := problem.NotJudged, unjudgedDetail
	switch v.reason {
	case extract.ReasonUnknownEncoding:
		code = problem.UnsupportedEncoding
		detail = "The Content-Encoding cannot be undone here; use gzip, br, zstd, deflate or none."
	case extract.ReasonUnknownCharset:
		code, detail = problem.UnsupportedMediaType, "The charset of the body is not known here; use UTF-8."
	case extract.ReasonBrokenEncoding:
		code, detail = problem.IncompleteBody, "The body is not in the Content-Encoding that it says."
	default:
		w.Header().Set("Retry-After", "1")
	}
	return m.refuse(w, r, x.id, problem.New(code, detail))
}

// rejection returns the problem of a message whose text is rejected.
func rejection(v *verdict) *problem.Problem {
	p := problem.New(problem.ContentRejected, rejectionDetail(v))
	p.Categories = v.Flags()
	for _, finding := range v.Findings {
		if finding.Recommendation == engine.Reject {
			p.Fields = append(p.Fields, problem.Field{Name: finding.Name, Categories: finding.Categories})
		}
	}
	return p
}

// rejectionDetail says in a sentence why text is rejected, without quoting it.
func rejectionDetail(v *verdict) string {
	names := v.Flags()
	switch {
	case len(names) > 0 && v.ByCategory:
		return judgedAs(names)
	case len(v.Themes) > 0:
		return "The text is about something that is not allowed here."
	case !v.Blocked && v.OtherLanguage:
		return "The text is in a language that is not expected here."
	}
	return "The text holds words that are not allowed here."
}

// judgedAs says what a text was judged as.
func judgedAs(categories []string) string {
	return strings.Replace(judged, "{}", enumerate(categories), 1)
}

// enumerate joins names with commas, and the last with "and".
func enumerate(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// refuse is the function [refuse] with the CORS header fields that the site has configured.
func (m *Moderate) refuse(w http.ResponseWriter, r *http.Request, id string, p *problem.Problem) error {
	m.CORS.Show(w, r)
	return refuse(w, r, id, p)
}

// refuse answers a request with a problem: by the site's own error routes (handle_errors) where they answer, as the API
// of a language model does when the request is for one, as a page when the client asks for HTML, and otherwise as
// problem details.
func refuse(w http.ResponseWriter, r *http.Request, id string, p *problem.Problem) error {
	own := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if format := formatOf(r); format != nil {
			return format.write(w, r, id, p)
		}
		if wantsHTML(r.Header["Accept"]) {
			return writePage(w, r, id, p)
		}
		problem.Write(w, r, id, p)
		return nil
	})
	server, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || server.Errors == nil || len(server.Errors.Routes) == 0 {
		return own(w, r)
	}
	w.Header().Set("X-Request-Id", id)
	failed := server.Errors.WithError(r, caddyhttp.Error(p.Code.Status(), p))
	// Error routes that do not handle the status end in Caddy's answer without a body. The guard's own is better.
	site := responsewriter.Observe(w)
	site.Hold = true
	if err := server.Errors.Routes.Compile(own).ServeHTTP(&site, failed); err != nil || site.Began() {
		return err
	}
	if status := site.Status(); status != 0 && status != p.Code.Status() {
		w.WriteHeader(status)
		return nil
	}
	return own(w, r)
}

// wantsHTML reports whether a client prefers HTML to JSON, as a browser does that sends a form.
func wantsHTML(accept []string) bool {
	for _, value := range accept {
		if html := strings.Index(value, "text/html"); html >= 0 {
			json := strings.Index(value, "json")
			return json < 0 || html < json
		}
	}
	return false
}

// page is the refusal for browsers. It loads nothing.
var page = template.Must(template.New("refusal").Parse(`<!doctype html>
<html lang="{{.Tag}}" dir="{{.Direction}}">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<style>
body { font: 1.1rem/1.5 system-ui, sans-serif; max-width: 36rem; margin: 15vh auto; padding: 0 1.5rem; color: #222; background: #fff }
h1 { font-size: 1.5rem }
small { color: #666 }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818 } small { color: #999 } }
</style>
<h1>{{.Title}}</h1>
{{with .Detail}}<p>{{.}}</p>
{{end}}<p>{{.Advice}}</p>
<p><small>{{.ID}}</small></p>
</html>
`))

// writePage answers with the page, in the language that the visitor's browser asks for.
func writePage(w http.ResponseWriter, r *http.Request, id string, p *problem.Problem) error {
	title, advice := p.Code.Title(), "Please go back and try again."
	if p.Code == problem.ContentRejected {
		title, advice = "Your message was not accepted", "Nothing was sent. Go back to change your message."
	}
	l := wordingFor(r.Header["Accept-Language"])
	var b bytes.Buffer
	err := page.Execute(&b, struct {
		wording
		Title, Detail, Advice, ID string
	}{l, l.say(title), l.detail(p), l.say(advice), id})
	if err != nil {
		return err
	}
	header := w.Header()
	problem.SetHeaders(header, id)
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	header.Set("Content-Language", l.Tag)
	header.Add("Vary", "Accept-Language")
	responsewriter.Send(w, r, p.Code.Status(), "text/html; charset=utf-8", b.Bytes())
	return nil
}
