// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// traced runs a site with Caddy's tracing while send uses it, and returns what a collector of traces has received when
// the server has stopped.
func traced(t *testing.T, config string, send func()) (spans []*otlp.Span) {
	t.Helper()
	var mu sync.Mutex
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(body, &request) != nil {
			t.Errorf("the collector got %v %q, want spans", err, body)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, resource := range request.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				spans = append(spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(receiver.Close)
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	t.Setenv("OTEL_PROPAGATORS", "tracecontext,baggage")
	load(t, config)
	send()
	client.CloseIdleConnections()
	if err := caddy.Stop(); err != nil { // sends the last spans
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return spans
}

// tree writes the spans below a parent, each with what is in its attributes and does not change from run to run.
func tree(spans []*otlp.Span, parent []byte, depth int) string {
	var below []*otlp.Span
	for _, span := range spans {
		if slices.Equal(span.ParentSpanId, parent) {
			below = append(below, span)
		}
	}
	slices.SortStableFunc(below, func(a, b *otlp.Span) int {
		return cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano)
	})
	var text strings.Builder
	for _, span := range below {
		text.WriteString(strings.Repeat("  ", depth) + span.Name)
		var attributes []string
		for _, attribute := range span.Attributes {
			name, value := attribute.Key, attribute.Value
			switch {
			case !strings.HasPrefix(name, "moderation.") && name != "error.type":
				continue // of others
			case name == "moderation.id" && strings.HasPrefix(value.GetStringValue(), "mod_"):
				attributes = append(attributes, "id")
			case name == "moderation.bytes" || name == "moderation.tokens":
				attributes = append(attributes, strings.TrimPrefix(name, "moderation."))
			default:
				attributes = append(attributes, strings.TrimPrefix(name, "moderation.")+"="+plainValue(value))
			}
		}
		slices.Sort(attributes)
		if len(attributes) > 0 {
			text.WriteString(" (" + strings.Join(attributes, ", ") + ")")
		}
		if span.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR && depth > 0 {
			text.WriteString(" failed")
		}
		text.WriteString("\n" + tree(spans, span.SpanId, depth+1))
	}
	return text.String()
}

// plainValue returns the value of an attribute as text.
func plainValue(value *common.AnyValue) string {
	switch value := value.Value.(type) {
	case *common.AnyValue_StringValue:
		return value.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint(value.IntValue)
	case *common.AnyValue_BoolValue:
		return fmt.Sprint(value.BoolValue)
	}
	return "?"
}

// tracedSite is a site with Caddy's tracing.
func tracedSite(t *testing.T, site string) string {
	return guardConfig(t, "tracing {\nspan site\n}\n"+site)
}

// TestTraces guards against traces in which the service is one opaque step, against steps that stand at the wrong
// place, and against texts, keys and accounts that a collector of traces should not get.
func TestTraces(t *testing.T) {
	var mu sync.Mutex
	var upstream []http.Header
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		upstream = append(upstream, r.Header)
		mu.Unlock()
		switch r.URL.Path {
		case "/stream":
			w.Header().Set("Content-Type", "text/event-stream")
			for range 3 {
				_, _ = io.WriteString(w, "data: {\"text\":\"What a lovely day it is. \"}\n\n")
			}
		case "/v1/moderations":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"modr-1","results":[{"flagged":true,"category_scores":{"harassment":0.9}}]}`)
		default:
			_, _ = io.WriteString(w, "thank you")
		}
	}))
	t.Cleanup(app.Close)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	from := []string{"Traceparent", "00-" + trace + "-00f067aa0ba902b7-01", "Baggage", "user=secretbaggage"}
	post := func(path, key, body string) func() {
		return func() {
			call(t, http.MethodPost, base+path, key, strings.NewReader(body), append([]string{"Content-Type", "application/json"}, from...)...)
		}
	}
	proxy := "reverse_proxy " + app.URL
	for _, test := range []struct {
		name, site string
		send       func()
		want       string // the tree
		forwarded  string // the trace that the upstream gets
	}{
		{"a text", "moderation_api", post("/v1/moderate/text", acmeKey, `{"content":"`+vile+`"}`), `site
  moderation.authenticate (id)
  moderation.charge (requests=1)
  moderation.read (bytes)
  moderation.classify (characters=VILE, flagged=true, recommendation=reject, tokens)
  moderation.settle
`, ""},
		{"a wrong key", "moderation_api", post("/v1/moderate/text", "mod_sk_wrong", `{"content":"`+vile+`"}`), `site
  moderation.authenticate (error.type=invalid_key, id)
`, ""},
		{"a batch", "moderation_api", post("/v1/moderations", acmeKey, `{"input":["`+vile+`","a"]}`), `site
  moderation.authenticate (id)
  moderation.read (bytes)
  moderation.charge (requests=2)
  moderation.classify (characters=VILE+1, flagged=true, recommendation=reject, texts=2, tokens)
  moderation.settle
`, ""},
		{"a batch that no minute has room for", "moderation_api", post("/v1/moderations", smallKey, `{"input":["a","b","c","d"]}`), `site
  moderation.authenticate (id)
  moderation.read (bytes)
  moderation.charge (error.type=rate_limit_exceeded, requests=4)
`, ""},
		{"a comment", "moderation_api", post("/v1alpha1/comments:analyze", acmeKey, `{"comment":{"text":"`+vile+`"},"requestedAttributes":{"TOXICITY":{}}}`), `site
  moderation.authenticate (id)
  moderation.charge (requests=1)
  moderation.read (bytes)
  moderation.classify (characters=VILE, flagged=true, recommendation=reject, tokens)
  moderation.settle
`, ""},
		{"a guard", "moderate\n" + proxy, post("/comments", "", `{"comment":"`+fine+`"}`), `site
  moderation.extract (id, texts=1)
  moderation.moderate (direction=request)
    moderation.classify (characters=FINE, texts=1)
    moderation.decide (flagged=false, recommendation=approve)
`, trace},
		{"a guard with an account", "moderate {\naccount acme\n}\n" + proxy, post("/comments", "", `{"comment":"`+vile+`"}`), `site
  moderation.extract (id, texts=1)
  moderation.moderate (direction=request)
    moderation.charge
    moderation.classify (characters=VILE, texts=1)
    moderation.decide (flagged=true, recommendation=reject)
  moderation.settle
`, ""},
		{"the answer of a guarded app", "moderate_response\n" + proxy, post("/any", "", ""), `site
  moderation.moderate (direction=response)
    moderation.classify (characters=9, texts=1)
    moderation.decide (flagged=false, recommendation=approve)
`, trace},
		{"a streamed answer", "moderate_response {\naccount acme\n}\n" + proxy, post("/stream", "", ""), `site
  moderation.stream (flagged=false, id, recommendation=approve)
  moderation.charge
  moderation.settle
`, trace},
		{"a comparison", "moderation_compare " + app.URL, func() {
			ask(t, base+"/v1/moderations", `{"input":"`+vile+`"}`, from...)
			awaitComparison(t)
		}, `site
  moderation.forward (status=200)
  moderation.compare (characters=VILE, id, texts=1)
`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			upstream = nil
			spans := traced(t, tracedSite(t, test.site), test.send)
			want := strings.NewReplacer("VILE+1", fmt.Sprint(len(vile)+1), "VILE", fmt.Sprint(len(vile)), "FINE", fmt.Sprint(len(fine))).Replace(test.want)
			if got := tree(spans, []byte{0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7}, 0); got != want {
				t.Errorf("got:\n%swant:\n%s", got, want)
			}
			for _, span := range spans {
				if hex.EncodeToString(span.TraceId) != trace {
					t.Errorf("%s is of another trace", span.Name)
				}
			}
			seen := fmt.Sprint(spans)
			for _, secret := range []string{"worthless", acmeKey, acmeKey[7:20], "acme", fine} {
				if strings.Contains(seen, secret) {
					t.Errorf("the spans hold %q: %s", secret, seen)
				}
			}
			for _, header := range upstream {
				if !strings.Contains(header.Get("Traceparent"), test.forwarded) || test.forwarded == "" && header.Get("Traceparent") != "" {
					t.Errorf("the upstream got the trace %q, want %q", header.Get("Traceparent"), test.forwarded)
				}
				if strings.HasPrefix(test.name, "a comparison") && header.Get("Baggage") != "" {
					t.Errorf("the other service got the baggage %q, want none", header.Get("Baggage"))
				}
			}
		})
	}
}

// TestFailuresInTraces guards against a trace that does not show which step has failed.
func TestFailuresInTraces(t *testing.T) {
	config := strings.Replace(tracedSite(t, "moderation_api"), "storage badger", "storage flaky", 1)
	defer broken.Store(false)
	spans := traced(t, config, func() {
		broken.Store(true)
		if got := moderate(t, acmeKey, `{"content":"a text"}`); got.status != http.StatusServiceUnavailable {
			t.Errorf("got %d %s, want 503", got.status, got.body)
		}
	})
	const want = `site
  moderation.authenticate (id)
  moderation.charge (requests=1)
  moderation.read (bytes)
  moderation.classify (characters=6, flagged=false, recommendation=approve, tokens)
  moderation.settle (error.type=storage_unavailable) failed
`
	if got := tree(spans, nil, 0); got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

// TestNoTraceWithoutTracing guards against spans that nobody asked for: of a site without tracing, and of requests that
// the sampler leaves out.
func TestNoTraceWithoutTracing(t *testing.T) {
	send := func() { moderate(t, acmeKey, `{"content":"a text"}`) }
	if spans := traced(t, guardConfig(t, "moderation_api"), send); len(spans) > 0 {
		t.Errorf("without tracing: got %v", spans)
	}
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	if spans := traced(t, tracedSite(t, "moderation_api"), send); len(spans) > 0 {
		t.Errorf("with the sampler always_off: got %v", spans)
	}
}
