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
			t.Errorf("%s: %d %s", encoding, got.status, plain)
		}
		if string(body) != request || forwarded.URL.Query().Get("key") != "oldservicekey" || "http://"+forwarded.Host != other.URL {
			t.Errorf("the other service got %s %s %s", forwarded.Host, forwarded.URL, body)
		}
	}
	ask(t, base+"/v1/moderations", `{"input":["`+vile+`","`+fine+`"]}`)
	if got := ask(t, base+"/v1alpha1/comments:analyze?key=bad", request); got.status != http.StatusBadRequest {
		t.Errorf("%d %s", got.status, got.body)
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
	for end := time.Now().Add(5 * time.Second); bytes.Count(log, []byte(`"compared"`)) < 4 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
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
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, received}
}
