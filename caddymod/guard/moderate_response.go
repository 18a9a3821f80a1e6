// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/content"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/extract"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/policy"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/response"
	"github.com/caddy-moderation/caddy-moderation/caddymod/guard/stream"
	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/sampled"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
)

func init() {
	caddy.RegisterModule(new(ModerateResponse))
}

// ModerateResponse is a middleware that moderates the answers of the app behind it before the client reads them. It
// moderates JSON, plain text and the visible text of HTML and XML. Answers without a body, gRPC, WebSockets and files
// pass unchanged; files are attachments (Content-Disposition), scripts, style sheets and types that are not text. A
// client that asks for a range of a text gets all of it, moderated. If the app sends only a part, that part is
// moderated.
//
// An answer is held until it is moderated. A rejected answer becomes a problem (RFC 9457) with status 422 and the code
// response_rejected, or the site's own error page if handle_errors has one. An answer of a language model's API
// (completions, chats, responses and messages) becomes one without text and with the finish_reason
// "content_filter". An answer that a person should review goes on with the header field
// X-Moderation-Recommendation: review.
//
// Server-sent events and lines of JSON are moderated as they flow, and so are plain text and JSON arrays of unknown
// length that the app flushes. Text is held back to the end of its sentence, and moderated together with the text
// before it. If text is rejected, the stream ends in a way that its clients understand (finish_reason
// "content_filter"), and the request to the app is cancelled.
//
// The app is asked for an answer without Content-Encoding, so that "encode", which stands outside, compresses instead.
// If the app compresses nevertheless, gzip, br, zstd and deflate are decoded.
//
// The verdict is in the placeholders {http.moderation.response.*}, in fields of the access log (moderation_response_*),
// and in metrics with direction="response". None of them holds moderated text.
type ModerateResponse struct {
	// The JSON Pointers (RFC 6901) to the texts of JSON answers, such as "/choices/*/message/content", where * stands
	// for any member or element. A pointer to an object or an array means every string in it. Answers of other types
	// are moderated as a whole. Default: every string.
	JSON []string `json:"json,omitempty"`
	// Whether to moderate every answer as one plain text, JSON and HTML too. Default: false.
	Text bool `json:"text,omitempty"`
	policy.Policy
	// The limits of an answer. When one is exceeded, the default is "prefix": the first part is moderated, and the rest
	// goes on unjudged. "reject" answers 422 in its place. Streams have no limits: they are moderated to their end.
	extract.Limits

	// The routes to run for a verdict, before anything of the answer is sent. When their handlers do not answer, the
	// answer goes on, and a rejected one becomes the default refusal. Header fields that they set are those of the
	// answer. For a stream only "reject" is run, and only when nothing of it was sent yet. Default: none.
	On *Reactions `json:"on,omitempty"`
	// Whether to moderate, log, count and set placeholders, but never to act: not a byte is changed or held back.
	// Default: false.
	Shadow bool `json:"shadow,omitempty"`
	// What happens to an answer that cannot be moderated, because its Content-Encoding is unknown or broken, the
	// classifier fails, or the limits of the account are used up: "pass" lets it through (the guard fails open),
	// "reject" answers 503 in its place, or ends a stream (the guard fails closed). Either way it is logged, and
	// counted in caddy_moderation_guard_errors_total. Default: "pass".
	OnError string `json:"on_error,omitempty"`
	// How streams are moderated.
	Stream *Stream `json:"stream,omitempty"`

	app       *app.App
	logger    *zap.Logger
	moderator *policy.Moderator
	options   response.Options
	counts    *metrics.Guarded
}

// Stream says how answers are moderated while they flow.
type Stream struct {
	// The JSON Pointers to the text in the JSON data of an event or a line, with * for any member or element; at most
	// 32. Names are case-sensitive. Default: every string that is not known to be something else than text (tool calls,
	// audio, identifiers), and all of any data that is not JSON.
	Delta []string `json:"delta,omitempty"`
	// The number of characters, from 1 to 10,000, after which text goes on even if its sentence has not ended. Default:
	// 200.
	Hold int `json:"hold,omitempty"`
	// The number of preceding characters, from 1 to 100,000, that are moderated again with each sentence. More context
	// takes more time. Default: 2000.
	Context int `json:"context,omitempty"`
	// The data of the events, or the lines, that end a rejected stream. Default: those of its format, for chat
	// completions a chunk with finish_reason "content_filter" and then [DONE].
	Final []string `json:"final,omitempty"`
}

// The maximum values of [Stream].
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

// Provision checks the configuration and prepares the guard.
func (m *ModerateResponse) Provision(ctx caddy.Context) (err error) {
	if m.app, err = app.Load(ctx); err != nil {
		return err
	}
	m.logger = sampled.Logger(ctx.Logger())
	if err := m.Limits.SetAnswerDefaults(); err != nil {
		return err
	}
	if err := provisionOnError(&m.OnError); err != nil {
		return err
	}
	pointers, err := extract.Pointers(m.JSON)
	if err != nil {
		return err
	}
	streams, err := m.Stream.options()
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	streams.FailOpen = m.OnError == onErrorPass || m.Shadow
	failClosed := m.OnError == onErrorReject && !m.Shadow
	if m.moderator, err = policy.New(ctx, m.app, &m.Policy, metrics.Outbound, failClosed); err != nil {
		return err
	}
	m.counts = count(ctx, m.app, metrics.Outbound, m.Shadow)
	m.options = response.Options{
		Selection: content.Selection{JSON: pointers, Text: m.Text, Trusted: true},
		Limits:    m.Limits, Stream: streams, Shadow: m.Shadow, Counted: m.moderator.HasAccount(),
	}
	return m.On.provision(ctx)
}

// options checks s and returns the options of package stream. s may be nil.
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

// ServeHTTP lets the app answer, and moderates the answer.
func (m *ModerateResponse) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.Method == http.MethodHead {
		return response.Forward(w, r, next, m.Shadow)
	}
	// The exchange is made now, because the variables of a request must not change once it has gone on: reverse_proxy
	// may still read them, for another connection, when the answer has come, and Go ends a program that reads and
	// writes a map at once.
	x := exchangeOf(r, m.app)
	if m.moderator.HasAccount() {
		defer m.app.TryAcquire().Release() // the app may take its time
	}
	return response.Serve(w, r, next, &m.options, &answer{m: m, r: r, x: x, path: r.URL.Path})
}

// Interface guards
var (
	_ caddy.Provisioner           = (*ModerateResponse)(nil)
	_ caddyhttp.MiddlewareHandler = (*ModerateResponse)(nil)
)
