// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// TestCompare forwards to a stand-in for the service that is to be left.
func TestCompare(t *testing.T) {
	const answer = `{"attributeScores":{"TOXICITY":{"summaryScore":{"value":0.93,"type":"PROBABILITY"}},"FLIRTATION":{"summaryScore":{"value":0.2}}},"languages":["en"]}`
	var forwarded *http.Request
	var body []byte
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forwarded = r
		body, _ = io.ReadAll(r.Body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/moderations"):
			_, _ = io.WriteString(w, `{"id":"modr-1","results":[{"flagged":true,"category_scores":{"harassment":0.9,"harassment/threatening":0.1,"illicit":0.1}},{"flagged":false,"category_scores":{"harassment":0.01}}]}`)
		case r.URL.Query().Get("key") == "bad":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"code":400}}`)
		case strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
			w.Header().Set("Content-Encoding", "gzip")
			// Some servers do not bother to compress what is short: the text stands in the stream as it is.
			z, _ := gzip.NewWriterLevel(w, gzip.NoCompression)
			_, _ = io.WriteString(z, answer)
			_ = z.Close()
		default:
			_, _ = io.WriteString(w, answer)
		}
	}))
	t.Cleanup(other.Close)
	dir := t.TempDir()
	config := strings.Replace(guardConfig(t, "moderation_compare "+other.URL), "log {\n\t\toutput discard\n\t}", "log {\n\t\toutput file "+dir+"/caddy.log\n\t}", 1)
	load(t, config)
	request := `{"comment":{"text":"` + vile + `"},"requestedAttributes":{"TOXICITY":{},"FLIRTATION":{}},"doNotStore":true}`
	const path = "/v1alpha1/comments:analyze?key=oldservicekey"
	for _, encoding := range []string{"gzip", "identity"} {
		got := ask(t, base+path, request, "Accept-Encoding", encoding)
		plain := got.body
		if got.header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(bytes.NewReader(plain))
			if err != nil {
				t.Fatal(err)
			}
			plain, _ = io.ReadAll(z)
		}
		if got.status != http.StatusOK || string(plain) != answer {
			t.Errorf("%s: got %d %s, want %d %s", encoding, got.status, plain, http.StatusOK, answer)
		}
		if string(body) != request || forwarded.URL.Query().Get("key") != "oldservicekey" || "http://"+forwarded.Host != other.URL {
			t.Errorf("the other service got %s %s %s", forwarded.Host, forwarded.URL, body)
		}
	}
	ask(t, base+"/v1/moderations", `{"input":["`+vile+`","`+fine+`"]}`)
	if got := ask(t, base+"/v1alpha1/comments:analyze?key=bad", request); got.status != http.StatusBadRequest {
		t.Errorf("got %d %s, want %d", got.status, got.body, http.StatusBadRequest)
	}
	call(t, http.MethodGet, base+"/anything", "", nil)

	metrics := string(call(t, http.MethodGet, "http://"+adminAddr+"/metrics", "", nil).body)
	for _, line := range []string{
		`caddy_moderation_compare_exchanges_total{outcome="compared"} 4`,
		`caddy_moderation_compare_exchanges_total{outcome="upstream_failed"} 1`,
		`caddy_moderation_compare_total{above="both",attribute="TOXICITY",threshold="0.7"} 2`,
		`caddy_moderation_compare_total{above="both",attribute="harassment",threshold="0.7"} 1`,
		`caddy_moderation_compare_total{above="neither",attribute="harassment",threshold="0.7"} 1`,
		`caddy_moderation_compare_total{above="both",attribute="flagged",threshold="0.5"} 1`,
		`caddy_moderation_compare_total{above="neither",attribute="flagged",threshold="0.5"} 1`,
		`caddy_moderation_compare_total{above="ours",attribute="harassment/threatening",threshold="0.5"} 1`,
		`caddy_moderation_compare_difference_count{attribute="TOXICITY"} 2`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics have no %s", line)
		}
	}
	var log []byte
	for end := time.Now().Add(5 * time.Second); bytes.Count(log, []byte(`"compared"`)) < 4 &&
		time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		log, _ = os.ReadFile(filepath.Join(dir, "caddy.log"))
	}
	for _, secret := range []string{"worthless", "bakery", "oldservicekey"} {
		if bytes.Contains(log, []byte(secret)) {
			t.Errorf("the log tells %q", secret)
		}
	}
	found := false
	for line := range bytes.Lines(log) {
		var entry struct {
			Msg          string
			Theirs, Ours map[string]float64
		}
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "compared" && entry.Theirs["TOXICITY"] == 0.93 {
			found = entry.Ours["TOXICITY"] > 0.5 && len(entry.Theirs) == len(entry.Ours)
		}
	}
	if !found {
		t.Errorf("the log has no comparison: %s", log)
	}
}

// ask posts JSON. Unlike call it does not hold the answer against the description of this server's own interface.
func ask(t *testing.T, url, body string, headers ...string) reply {
	t.Helper()
	return postWith(t, client, url, "application/json", body, headers...)
}

// TestCompareForwards lists what arrives at the other service, and sees that nothing else does.
func TestCompareForwards(t *testing.T) {
	arrivals := make(chan *http.Request, 1)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // trailers come behind it
		arrivals <- r
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(other.Close)
	load(t, strings.Replace(guardConfig(t, "moderation_compare "+other.URL), "demo off", "demo off\nkey_prefix acme", 1))
	// What browsers, proxies and libraries send.
	client := []string{
		"Accept: application/json", "Accept-Encoding: gzip", "Content-Type: application/json", "Accept-Language: de-AT", "User-Agent: Mozilla/5.0 (X11)",
		"Cookie: session=secret", "Referer: https://www.example.com/private", "Origin: https://www.example.com", "DNT: 1", "Sec-CH-UA: x",
		"X-Forwarded-For: 203.0.113.7", "X-Forwarded-Host: www.example.com", "X-Forwarded-Proto: https", "Forwarded: for=203.0.113.7", "Via: 1.1 proxy",
		"X-Real-IP: 203.0.113.7", "True-Client-IP: 203.0.113.7", "CF-Connecting-IP: 203.0.113.7", "X-Client-IP: 203.0.113.7", "X-Request-Id: 1",
		"X-Stainless-OS: Linux", "X-Csrf-Token: secret", "Proxy-Authorization: Basic x", "X-Moderation-Id: 1", "Early-Data: 1", "Te: trailers",
		"Transfer-Encoding: chunked", "Trailer: X-Secret",
	}
	for _, test := range []struct {
		name, path  string
		credentials []string
		want        map[string]string // beside what all have
		query       string
	}{
		{"a key of the other service", "/v1/moderations?user=7&key=abc", []string{"Authorization: Bearer sk-theirs", "OpenAI-Organization: org", "OpenAI-Project: p"},
			map[string]string{"Authorization": "Bearer sk-theirs", "Openai-Organization": "org", "Openai-Project": "p"}, "key=abc"},
		{"a key of this server", "/v1/moderations", []string{"Authorization: Bearer mod_sk_0123456789abcdef"}, nil, ""},
		{"with the configured prefix", "/v1/moderations", []string{"Authorization: bearer  acme_sk_0123456789abcdef"}, nil, ""},
		{"a password of the site", "/v1/moderations", []string{"Authorization: Basic YTpi"}, nil, ""},
		{"Google's header", "/v1alpha1/comments:analyze", []string{"X-Goog-Api-Key: AIza", "X-Goog-User-Project: p"},
			map[string]string{"X-Goog-Api-Key": "AIza", "X-Goog-User-Project": "p"}, ""},
		{"both servers' keys", "/v1alpha1/comments:analyze?key=AIza&alt=json&quotaUser=203.0.113.7", []string{"X-Goog-Api-Key: mod_sk_0123456789abcdef"}, nil, "alt=json&key=AIza"},
		{"a key of this server in the address", "/v1alpha1/comments:analyze?key=%6Dod_sk_0123456789abcdef", nil, nil, ""},
		{"what is not compared", "/$discovery/rest?version=v1alpha1&session=secret", []string{"Authorization: Bearer mod_sk_0123456789abcdef"}, nil, "version=v1alpha1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := attempt{path: test.path, header: append(test.credentials, client...), body: chunked(`{"input":"`+fine+`"}`, 9, "", "X-Secret: 1\r\n")}
			if status, body := a.raw(t); status != http.StatusOK {
				t.Fatalf("got %d %s, want %d", status, body, http.StatusOK)
			}
			got := <-arrivals
			want := map[string]string{"Accept": "application/json", "Accept-Encoding": "gzip", "Content-Type": "application/json", "User-Agent": "caddy-moderation"}
			for name, value := range test.want {
				want[name] = value
			}
			for name, values := range got.Header {
				if value, ok := want[name]; !ok || strings.Join(values, "|") != value {
					t.Errorf("the header field %s: got %q, want %q", name, values, value)
				}
			}
			if len(got.Header) != len(want) || len(got.Trailer) != 0 || got.URL.RawQuery != test.query || "http://"+got.Host != other.URL {
				t.Errorf("forwarded: got %s %s with %v and the trailers %v, want the query %q and the fields %v",
					got.Host, got.URL, got.Header, got.Trailer, test.query, want)
			}
		})
	}
}

// TestCompareForwardsWhatTheSiteSets sees that a site can send a credential of its own.
func TestCompareForwardsWhatTheSiteSets(t *testing.T) {
	arrivals := make(chan *http.Request, 1)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrivals <- r
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(other.Close)
	listen := strings.TrimPrefix(base, "http://")
	config := `{"admin":{"listen":"` + adminAddr + `","config":{"persist":false}},"logging":{"logs":{"default":{"writer":{"output":"discard"}}}},"apps":{"http":{"servers":{"s":{
		"listen":["` + listen + `"],"automatic_https":{"disable":true},"routes":[{"handle":[{"handler":"moderation_compare","proxy":{"handler":"reverse_proxy",
		"upstreams":[{"dial":"` + strings.TrimPrefix(other.URL, "http://") + `"}],
		"headers":{"request":{"set":{"authorization":["Bearer of the site"],"X-Forwarded-For":["192.0.2.1"]}}}}}]}]}}}}}`
	if err := caddy.Load([]byte(config), true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caddy.Stop() })
	ask(t, base+"/v1/moderations", `{"input":"`+fine+`"}`, "Authorization", "Bearer mod_sk_0123456789abcdef", "Cookie", "a=b")
	header := (<-arrivals).Header
	if header.Get("Authorization") != "Bearer of the site" || header.Get("X-Forwarded-For") != "192.0.2.1" ||
		header.Get("X-Forwarded-Host")+header.Get("Via")+header.Get("Cookie") != "" {
		t.Errorf("forwarded: got the header %v, want what the site sets and nothing else of the client", header)
	}
}

// awaitComparison waits until all requests that were forwarded are compared, which happens after they are answered.
func awaitComparison(t *testing.T) {
	t.Helper()
	eventually(t, "the last comparison", func() bool {
		metrics := string(call(t, http.MethodGet, "http://"+adminAddr+"/metrics", "", nil).body)
		return strings.Contains(metrics, `caddy_moderation_compare_exchanges_total{outcome="compared"}`) &&
			strings.Contains(metrics, `attribute="flagged"`)
	})
}
