// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/stream"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/sampled"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
)

func init() {
	caddy.RegisterModule(new(ModerateResponse))
}

// ModerateResponse is a middleware that judges what the app behind it answers, before the client reads it. It judges JSON,
// plain text and the visible text of HTML and XML. Files (Content-Disposition: attachment, and types that are not text,
// scripts and style sheets), answers without a body, gRPC and WebSockets go through untouched. Of what is text no range is
// answered: the client gets the whole, judged; when the app sends a part nevertheless, that part is judged.
//
// An answer is held until it is judged. What is to be rejected becomes a problem (RFC 9457) with status 422 and the code
// response_rejected, or the site's own error page where handle_errors has one; an answer of a language model's API (chat
// completions, completions, responses and messages) becomes one without text and with the finish_reason "content_filter". What a
// person should look at goes on with the header field X-Moderation-Recommendation: review.
//
// Server-sent events, lines of JSON, and plain text and arrays in JSON of unknown length that the app flushes, are judged as
// they flow: text is held back only to
// the end of its sentence, and judged together with what went before. When text is rejected in the middle, the stream ends with
// what its readers understand (finish_reason "content_filter"), and the request to the app is cancelled.
//
// The app is asked for an answer without Content-Encoding, so that "encode", which stands outside, compresses instead. If the
// app compresses nevertheless, gzip, br, zstd and deflate are understood.
//
// The verdict is in the placeholders {http.moderation.response.*}, in fields of the access log (moderation_response_*), and in
// metrics with direction="response". None of them holds text that was judged.
type ModerateResponse struct {
	// JSON are JSON Pointers (RFC 6901), such as "/choices/*/message/content", where * stands for any member or element. Of
	// JSON answers only these are judged; a pointer to an object or an array means every string in it. Default: every string.
	// Answers of other types are judged as a whole.
	JSON []string `json:"json,omitempty"`
	// Text judges every answer as one plain text, JSON and HTML too. Default false.
	Text bool `json:"text,omitempty"`
	Policy
	// Past the limits of an answer the default is "prefix": the first part is judged, the rest goes on unjudged. "reject"
	// answers 422 in its place. Streams have no limits: they are judged to their end.
	Limits

	// On holds what to do with a verdict. Its routes are run before anything of the answer is sent; when their handlers do not
	// answer, the answer goes on, and a rejected one becomes the default refusal. Header fields that they set are those of the
	// answer. Of a stream only "reject" is run, and only when nothing of it was sent yet.
	On *Reactions `json:"on,omitempty"`
	// Shadow judges, logs, counts and sets placeholders, but never acts: not a byte is changed or held back. Default false.
	Shadow bool `json:"shadow,omitempty"`
	// OnError says what happens to an answer that cannot be judged, because its Content-Encoding is unknown or broken, the
	// classifier fails, or the limits of the account are used up: "pass" lets it through (the guard fails open), "reject"
	// answers 503 in its place, or ends a stream (the guard fails closed). Either way it is logged, and counted in
	// caddy_moderation_guard_errors_total. Default "pass".
	OnError string `json:"on_error,omitempty"`
	// Stream says how streams are judged.
	Stream *Stream `json:"stream,omitempty"`

	app    *app.App
	logger *zap.Logger
	reader *reader
	judge  *judge
	stream stream.Options
}

// Stream says how answers are judged that flow.
type Stream struct {
	// Delta are JSON Pointers to the text in the JSON data of an event or a line, with * for any member or element; at most 32.
	// Names match in their own case only. Default: every string, but for what is known to be no text (calls of tools, sound,
	// identifiers), and data that is not JSON as a whole.
	Delta []string `json:"delta,omitempty"`
	// Hold is the number of characters after which text goes on before its sentence ends, from 1 to 10,000. Default 200.
	Hold int `json:"hold,omitempty"`
	// Context is the number of characters of the text before that are judged again with each sentence, from 1 to 100,000. More
	// of it sees more connections, and takes more time for each sentence. Default 2000.
	Context int `json:"context,omitempty"`
	// Final is the data of the events, or the lines, that end a rejected stream. Default: what the stream's own kind ends with,
	// for chat completions a chunk with finish_reason "content_filter" and then [DONE].
	Final []string `json:"final,omitempty"`
}

// Limits of [Stream].
const (
	maxHold    = 10_000
	maxContext = 100_000
)

// CaddyModule returns the Caddy module information.
func (*ModerateResponse) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.moderate_response",
		New: func() caddy.Module { return new(ModerateResponse) },
	}
}

// Provision prepares the guard.
func (m *ModerateResponse) Provision(ctx caddy.Context) (err error) {
	if m.app, err = app.Load(ctx); err != nil {
		return err
	}
	m.logger = sampled.Logger(ctx.Logger())
	if err := m.Limits.provisionAnswer(); err != nil {
		return err
	}
	if err := provisionOnError(&m.OnError); err != nil {
		return err
	}
	if m.reader, err = newReader(&Reading{JSON: m.JSON, Text: m.Text}, m.Limits, 0); err != nil {
		return err
	}
	m.reader.selection.Trusted = true
	if m.stream, err = m.Stream.options(); err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	m.stream.FailOpen = m.OnError == errorPass || m.Shadow
	if m.judge, err = m.Policy.provision(ctx, m.app, metrics.Outbound); err != nil {
		return err
	}
	m.judge.closed = m.OnError == errorReject && !m.Shadow
	return m.On.provision(ctx)
}

// options are those of the room that judges streams. s may be nil.
func (s *Stream) options() (stream.Options, error) {
	var o stream.Options
	if s == nil {
		return o, nil
	}
	if s.Hold < 0 || s.Hold > maxHold {
		return o, fmt.Errorf("hold is %d; it must be from 1 to %d characters", s.Hold, maxHold)
	}
	if s.Context < 0 || s.Context > maxContext {
		return o, fmt.Errorf("context is %d; it must be from 1 to %d characters", s.Context, maxContext)
	}
	if len(s.Delta) > stream.MaxDelta {
		return o, fmt.Errorf("delta has %d pointers; at most %d are possible", len(s.Delta), stream.MaxDelta)
	}
	o.Hold, o.Context = s.Hold, s.Context
	for _, text := range s.Delta {
		if _, err := content.ParsePointer(text); err != nil {
			return o, fmt.Errorf("delta %s: %w", text, err)
		}
		o.Delta = append(o.Delta, pointerParts(text))
	}
	for _, data := range s.Final {
		o.Final = append(o.Final, []byte(data))
	}
	return o, nil
}

// pointerParts takes a valid JSON Pointer apart.
func pointerParts(pointer string) []string {
	parts := strings.Split(pointer, "/")[1:]
	for i := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(parts[i], "~1", "/"), "~0", "~")
	}
	return parts
}

// errBroken says that the app's answer broke off before anything of it was sent.
var errBroken = errors.New("the answer of the app broke off")

// ServeHTTP lets the app answer, and judges that.
func (m *ModerateResponse) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.Method == http.MethodHead {
		inner, cancel := m.inner(r)
		defer cancel(nil)
		return next.ServeHTTP(w, inner)
	}
	// The variables of a request may not change once it has gone on: reverse_proxy reads them while it connects, which it may
	// still do when the answer has come by another connection, and Go ends a program that reads and writes a map at once.
	exchangeOf(r, m.app)
	if m.judge.account != "" {
		defer m.app.TryAcquire().Release() // the app may take its time
	}
	again := m.retry(w, r)
	a, broken, err := m.ask(w, r, next, again != nil)
	if a.partial {
		a, broken, err = m.ask(w, again(), next, false)
	}
	if err = a.finish(broken, err); (broken || a.broken) && !a.ended && err == nil {
		// The handler before has seen that the answer is not whole, and so must the client.
		panic(http.ErrAbortHandler)
	}
	return err
}

// inner is the request as the app gets it. The answer ends with it.
func (m *ModerateResponse) inner(r *http.Request) (*http.Request, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(r.Context())
	inner := r.WithContext(ctx)
	if !m.Shadow && r.Header["Upgrade"] == nil {
		// The header is also that of handlers outside, and of the access log.
		inner.Header = maps.Clone(r.Header)
		inner.Header["Accept-Encoding"] = identity
	}
	return inner, cancel
}

// ask lets the app answer once. mayRetry says that it can be asked again for the whole of what it answers a part of.
func (m *ModerateResponse) ask(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, mayRetry bool) (a *answer, broken bool, err error) {
	inner, cancel := m.inner(r)
	a = &answer{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, m: m, r: r, cancel: cancel, mayRetry: mayRetry}
	defer cancel(nil)
	broken, err = a.receive(next, inner)
	return a, broken, err
}

// retry prepares for asking the app again. It returns what makes everything as it was before the app was asked, and the
// request for the whole; nil for a request that asks for the whole, or that cannot be sent again.
func (m *ModerateResponse) retry(w http.ResponseWriter, r *http.Request) func() *http.Request {
	if r.Header["Range"] == nil || r.Method != http.MethodGet || m.Shadow || hasBody(r) {
		return nil
	}
	header, address := w.Header().Clone(), *r.URL
	groups, _ := r.Context().Value(routeGroups).(map[string]struct{})
	groups = maps.Clone(groups)
	return func() *http.Request {
		clear(w.Header())
		maps.Copy(w.Header(), header)
		// Handlers that rewrite the address, and routes of which only one is taken, begin anew.
		*r.URL = address
		whole := r.WithContext(r.Context())
		if groups != nil {
			whole = r.WithContext(context.WithValue(r.Context(), routeGroups, groups))
		}
		whole.Header = maps.Clone(r.Header)
		delete(whole.Header, "Range")
		delete(whole.Header, "If-Range")
		return whole
	}
}

// routeGroups is where Caddy notes which of several routes was taken.
const routeGroups caddy.CtxKey = "route_group"

// identity asks for an answer without Content-Encoding. Nobody appends to it.
var identity = []string{"identity"}

// receive lets the app answer. A handler that cannot go on with an answer panics with [http.ErrAbortHandler], as
// reverse_proxy does when the app or the client leaves, and when the guard has ended the answer.
func (a *answer) receive(next caddyhttp.Handler, r *http.Request) (broken bool, err error) {
	defer func() {
		switch reason := recover(); reason {
		case nil:
		case http.ErrAbortHandler:
			broken = true
		default:
			a.discard()
			panic(reason)
		}
	}()
	return false, next.ServeHTTP(a, r)
}

// note counts and logs what became of an answer.
func (a *answer) note() {
	if a.noted {
		return
	}
	a.noted = true
	what := outcome(a.v)
	if a.v.Action == Aborted && what == metrics.GuardErrorPassed {
		what = metrics.GuardErrorRefused // a stream that could not be judged any further
	}
	a.m.app.Metrics().Guard(metrics.Outbound, what, a.v.flagged(), a.v.took)
	if a.v.Status == Failed {
		a.m.app.Metrics().GuardError(metrics.Outbound, a.v.Reason)
	}
	emit(a.m.app, a.x, a.v)
	logVerdict(a.m.logger, "response", a.r, a.x.id, a.v)
}

// timed adds the time since a moment to what judging took.
func (a *answer) timed(began time.Time) { a.v.took += a.m.app.Now().Sub(began) }

// Interface guards
var (
	_ caddy.Provisioner           = (*ModerateResponse)(nil)
	_ caddyhttp.MiddlewareHandler = (*ModerateResponse)(nil)
)
