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

// ModerateResponse is a middleware that judges what the app behind it answers, before the client reads it. It judges
// JSON, plain text and the visible text of HTML and XML. Files (Content-Disposition: attachment, and types that are not
// text, scripts and style sheets), answers without a body, gRPC and WebSockets go through untouched. Of text no range
// is answered: the client gets the whole, judged; when the app sends a part nevertheless, that part is judged.
//
// An answer is held until it is judged. What is to be rejected becomes a problem (RFC 9457) with status 422 and the
// code response_rejected, or the site's own error page where handle_errors has one. An answer of a language model's API
// (completions, chats, responses and messages) becomes one without text and with the finish_reason
// "content_filter". What a person should look at goes on with the header field X-Moderation-Recommendation: review.
//
// Server-sent events, lines of JSON, and plain text and arrays in JSON of unknown length that the app flushes, are
// judged as they flow: text is held back only to the end of its sentence, and judged together with what went before.
// When text is rejected in the middle, the stream ends in a way that its readers understand (finish_reason
// "content_filter"), and the request to the app is cancelled.
//
// The app is asked for an answer without Content-Encoding, so that "encode", which stands outside, compresses instead.
// If the app compresses nevertheless, gzip, br, zstd and deflate are understood.
//
// The verdict is in the placeholders {http.moderation.response.*}, in fields of the access log (moderation_response_*),
// and in metrics with direction="response". None of them holds text that was judged.
type ModerateResponse struct {
	// The JSON Pointers (RFC 6901) to the texts of JSON answers, such as "/choices/*/message/content", where * stands
	// for any member or element. A pointer to an object or an array means every string in it. Answers of other types
	// are judged as a whole. Default: every string.
	JSON []string `json:"json,omitempty"`
	// Whether to judge every answer as one plain text, JSON and HTML too. Default: false.
	Text bool `json:"text,omitempty"`
	policy.Policy
	// The limits of an answer. When one is exceeded, the default is "prefix": the first part is judged, and the rest
	// goes on unjudged. "reject" answers 422 in its place. Streams have no limits: they are judged to their end.
	extract.Limits

	// The routes to run for a verdict, before anything of the answer is sent. When their handlers do not answer, the
	// answer goes on, and a rejected one becomes the default refusal. Header fields that they set are those of the
	// answer. For a stream only "reject" is run, and only when nothing of it was sent yet. Default: none.
	On *Reactions `json:"on,omitempty"`
	// Whether to judge, log, count and set placeholders, but never to act: not a byte is changed or held back. Default:
	// false.
	Shadow bool `json:"shadow,omitempty"`
	// What happens to an answer that cannot be judged, because its Content-Encoding is unknown or broken, the
	// classifier fails, or the limits of the account are used up: "pass" lets it through (the guard fails open),
	// "reject" answers 503 in its place, or ends a stream (the guard fails closed). Either way it is logged, and
	// counted in caddy_moderation_guard_errors_total. Default: "pass".
	OnError string `json:"on_error,omitempty"`
	// How streams are judged.
	Stream *Stream `json:"stream,omitempty"`

	app       *app.App
	logger    *zap.Logger
	moderator *policy.Moderator
	options   response.Options
}

// Stream says how answers are judged that flow.
type Stream struct {
	// The JSON Pointers to the text in the JSON data of an event or a line, with * for any member or element; at most
	// 32. Names match in their own case only. Default: every string, except what is known to be no text (calls of
	// tools, sound, identifiers), and data that is not JSON as a whole.
	Delta []string `json:"delta,omitempty"`
	// The number of characters after which text goes on before its sentence ends, from 1 to 10,000. Default: 200.
	Hold int `json:"hold,omitempty"`
	// The number of characters of the text before that are judged again with each sentence, from 1 to 100,000. More of
	// them show more connections, and take more time for each sentence. Default: 2000.
	Context int `json:"context,omitempty"`
	// The data of the events, or the lines, that end a rejected stream. Default: what streams of the same format end
	// with, for chat completions a chunk with finish_reason "content_filter" and then [DONE].
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
	m.options = response.Options{
		Selection: content.Selection{JSON: pointers, Text: m.Text, Trusted: true},
		Limits:    m.Limits, Stream: streams, Shadow: m.Shadow, Counted: m.moderator.HasAccount(),
	}
	return m.On.provision(ctx)
}

// options checks how streams are judged. s may be nil.
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

// ServeHTTP lets the app answer, and judges that.
func (m *ModerateResponse) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.Method == http.MethodHead {
		return response.Forward(w, r, next, m.Shadow)
	}
	// The variables of a request must not change once it has gone on: reverse_proxy reads them while it connects, which
	// it may still do when the answer has come by another connection, and Go ends a program that reads and writes a map
	// at once.
	x := exchangeOf(r, m.app)
	if m.moderator.HasAccount() {
		defer m.app.TryAcquire().Release() // the app may take its time
	}
	return response.Serve(w, r, next, &m.options, &answer{m: m, r: r, x: x})
}

// Interface guards
var (
	_ caddy.Provisioner           = (*ModerateResponse)(nil)
	_ caddyhttp.MiddlewareHandler = (*ModerateResponse)(nil)
)
