// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"errors"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-moderation/caddy-moderation/caddymod/problem"
	"github.com/caddy-moderation/caddy-moderation/engine"
)

// rejection is the problem of a request whose text is rejected.
func rejection(v *Verdict) *problem.Problem {
	p := problem.New(problem.ContentRejected, because(v))
	p.Categories = v.flagged()
	for _, finding := range v.Fields {
		if finding.Recommendation == engine.Reject {
			p.Fields = append(p.Fields, problem.Field{Name: finding.Name, Categories: finding.Categories})
		}
	}
	return p
}

// because says in a sentence why text is rejected, without telling it.
func because(v *Verdict) string {
	names := v.flagged()
	switch {
	case len(names) > 0:
		return "The text was judged as " + enumerate(names) + "."
	case len(v.Themes) > 0:
		return "The text is about something that is not allowed here."
	}
	return "The text holds words that are not allowed here."
}

// enumerate writes names as English does.
func enumerate(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// refuseUnread answers a request that is too large or broken.
func (m *Moderate) refuseUnread(w http.ResponseWriter, r *http.Request, x *exchange, f *found) error {
	code, detail := problem.IncompleteBody, "The body ended too early, or cannot be read."
	switch readReason(f.err) {
	case "too_large":
		code, detail = problem.BodyTooLarge, m.reader.describe(f.err)
	case "too_long":
		code, detail = problem.TextTooLong, m.reader.describe(f.err)
	case "ambiguous_body":
		code, detail = problem.AmbiguousBody, "Programs may read different texts in this body. A multipart form needs one plain boundary, and a body one charset."
	case "timeout":
		code, detail = problem.RequestTimeout, "The body did not arrive in time."
	}
	if errors.Is(f.err, errNotJudged) {
		code, detail = problem.NotJudged, notJudged
	}
	drain(w, r, x)
	return m.refuse(w, r, x.id, problem.New(code, detail))
}

const notJudged = "The text could not be judged now. Try again."

// refuseUnjudged answers a request that could not be judged.
func (m *Moderate) refuseUnjudged(w http.ResponseWriter, r *http.Request, x *exchange, v *Verdict) error {
	drain(w, r, x)
	switch v.Reason {
	case "unknown_encoding":
		return m.refuse(w, r, x.id, problem.New(problem.UnsupportedEncoding, "The Content-Encoding cannot be undone here; use gzip, br, zstd, deflate or none."))
	case "unknown_charset":
		return m.refuse(w, r, x.id, problem.New(problem.UnsupportedMediaType, "The charset of the body is not known here; use UTF-8."))
	case "broken_encoding":
		return m.refuse(w, r, x.id, problem.New(problem.IncompleteBody, "The body is not in the Content-Encoding that it says."))
	}
	w.Header().Set("Retry-After", "1")
	return m.refuse(w, r, x.id, problem.New(problem.NotJudged, notJudged))
}

// refuse is [refuse], which pages of other origins may read as the site says.
func (m *Moderate) refuse(w http.ResponseWriter, r *http.Request, id string, p *problem.Problem) error {
	m.CORS.Show(w, r)
	return refuse(w, r, id, p)
}

// refuse answers a request with a problem: by the site's own error routes (handle_errors) where they answer, as the interface of
// a language model does when the request is for one, as a page when the client asks for HTML, and else as problem details.
func refuse(w http.ResponseWriter, r *http.Request, id string, p *problem.Problem) error {
	own := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if say := dialectOf(r); say != nil {
			return say.speak(w, r, id, p)
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
	site := &siteWriter{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}}
	if err := server.Errors.Routes.Compile(own).ServeHTTP(site, failed); err != nil || site.wrote {
		return err
	}
	if site.status != 0 && site.status != p.Code.Status() {
		w.WriteHeader(site.status)
		return nil
	}
	return own(w, r)
}

// siteWriter holds the status of an answer back until there is a body. Error routes of a site that have nothing to say about
// a status end in Caddy's answer without a body, which ours is better than.
type siteWriter struct {
	caddyhttp.ResponseWriterWrapper
	status int
	wrote  bool
}

// WriteHeader keeps the status.
func (w *siteWriter) WriteHeader(status int) {
	if w.wrote || status < 200 {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	if w.status == 0 {
		w.status = status
	}
}

// Write writes the status and a part of the body.
func (w *siteWriter) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

// ReadFrom writes the status and the body from a reader.
func (w *siteWriter) ReadFrom(r io.Reader) (int64, error) {
	w.begin()
	return w.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError sends the status and what is written of the body.
func (w *siteWriter) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *siteWriter) begin() {
	if w.wrote {
		return
	}
	w.wrote = true
	if w.status != 0 {
		w.ResponseWriter.WriteHeader(w.status)
	}
}

// wantsHTML reports whether a client that says what it accepts would rather have a page than JSON: browsers that send a
// form do.
func wantsHTML(accept []string) bool {
	for _, value := range accept {
		if html := strings.Index(value, "text/html"); html >= 0 {
			json := strings.Index(value, "json")
			return json < 0 || html < json
		}
	}
	return false
}

// page is the refusal for people. It needs nothing from elsewhere.
var page = template.Must(template.New("refusal").Parse(`<!doctype html>
<html lang="en">
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
<p>{{.Detail}}</p>
<p>{{.Advice}}</p>
<p><small>{{.ID}}</small></p>
</html>
`))

// writePage answers with the page.
func writePage(w http.ResponseWriter, r *http.Request, id string, p *problem.Problem) error {
	advice := "Please go back and try again."
	title := p.Code.Title()
	if p.Code == problem.ContentRejected {
		title, advice = "Your message was not accepted", "Nothing was sent. Go back to change your message."
	}
	var b bytes.Buffer
	if err := page.Execute(&b, struct{ Title, Detail, Advice, ID string }{title, p.Error(), advice, id}); err != nil {
		return err
	}
	problem.SetHeaders(w.Header(), id)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(p.Code.Status())
	if r.Method != http.MethodHead {
		// An error means that the client left: there is nobody to tell.
		_, _ = w.Write(b.Bytes())
	}
	return nil
}
