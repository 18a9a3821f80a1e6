// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// answers is an app that answers what a test wants.
func answers(t testing.TB, header map[string]string, status int, body string) *backend {
	return newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// get asks the site, and does not undo any Content-Encoding.
func get(t testing.TB, headers ...string) reply {
	t.Helper()
	return call(t, http.MethodGet, base+"/", "", nil, append([]string{"Accept-Encoding", "identity"}, headers...)...)
}

// fineFollow makes an answer of n bytes that is fine.
func fineFollow(n int) string { return strings.Repeat(fine+"\n", n/len(fine)+1)[:n] }

func TestResponseIsModerated(t *testing.T) {
	page := func(text string) string {
		return "<!doctype html><html><head><title>Hi</title><script>var x = 'y'</script></head><body><p>" + text + "</p></body></html>"
	}
	const rejected, passes = http.StatusUnprocessableEntity, 0
	for _, test := range []struct {
		name, contentType, body string
		header                  map[string]string
		status, want            int
	}{
		{"JSON", "application/json", `{"a":{"b":"` + vile + `"}}`, nil, 200, rejected},
		{"an error of the app", "application/problem+json", `{"detail":"` + vile + `"}`, nil, 500, rejected},
		{"HTML", "text/html; charset=utf-8", page(vile), nil, 200, rejected},
		{"text in pieces of HTML", "text/html", page(strings.ReplaceAll(vile, "kill", "k<b>i</b>ll")), nil, 200, rejected},
		{"plain text", "text/plain", vile, map[string]string{"Content-Length": strconv.Itoa(len(vile))}, 200, rejected},
		{"plain text in another charset", "text/plain; charset=utf-16le", inUTF16(vile), nil, 200, rejected},
		{"no type", "-", vile, nil, 200, rejected},
		{"fine JSON", "application/json", `{"a":{"b":"` + fine + `"}}`, nil, 200, passes},
		{"fine HTML", "text/html", page(fine), nil, 201, passes},
		{"an empty page", "text/html", "", nil, 200, passes},
		{"a script", "text/javascript", vile, nil, 200, passes},
		{"a style sheet", "text/css", vile, nil, 200, passes},
		{"what a script in a page says", "text/html", strings.Replace(page(fine), "'y'", "'"+vile+"'", 1), nil, 200, passes},
		{"a picture", "image/png", "\x89PNG\r\n\x1a\n" + vile, nil, 200, passes},
		{"something of no type", "-", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + vile, nil, 200, passes},
		{"a file", "text/plain", vile, map[string]string{"Content-Disposition": `Attachment; filename="a.txt"`}, 200, passes},
		{"a range that nobody asked for", "text/plain", vile, map[string]string{"Content-Range": "bytes 0-57/100"}, 206, rejected},
		{"ranges that nobody asked for", "multipart/byteranges; boundary=x", "--x\r\nContent-Type: text/plain\r\n\r\n" + vile + "\r\n--x--\r\n", nil, 206, rejected},
		{"a range of a picture", "image/png", vile, map[string]string{"Content-Range": "bytes 0-57/100"}, 206, passes},
		{"gRPC", "application/grpc+json", vile, nil, 200, passes},
	} {
		t.Run(test.name, func(t *testing.T) {
			header := map[string]string{"Etag": `"x"`, "Set-Cookie": "a=b", "Cache-Control": "max-age=60"}
			for name, value := range test.header {
				header[name] = value
			}
			if test.contentType != "-" {
				header["Content-Type"] = test.contentType
			}
			app := answers(t, header, test.status, test.body)
			load(t, guardConfig(t, "moderate_response\nlog {\noutput discard\n}\n"+app.proxy()))
			got := get(t)
			if got.header.Get("Set-Cookie") != "a=b" {
				t.Errorf("the cookie is lost: %v", got.header)
			}
			if test.want == passes {
				if got.status != test.status || string(got.body) != test.body || got.header.Get("Etag") != `"x"` || got.header.Get("Cache-Control") != "max-age=60" {
					t.Errorf("got %d %q %v, want the app's answer as it is", got.status, got.body, got.header)
				}
				return
			}
			var problem refusal
			got.decodeJSON(t, &problem)
			if got.status != test.want || problem.Code != "response_rejected" || len(problem.Categories) == 0 || !strings.HasPrefix(problem.Instance, "mod_") ||
				got.header.Get("Content-Type") != "application/problem+json" || got.header.Get("Etag") != "" || got.header.Get("Cache-Control") != "no-store" {
				t.Errorf("got %d %q %v, want %d response_rejected, and no header of the app's body", got.status, got.body, got.header, test.want)
			}
			if bytes.Contains(got.body, []byte("worthless")) {
				t.Errorf("the refusal tells the text: %s", got.body)
			}
		})
	}
}

// inUTF16 writes ASCII in UTF-16.
func inUTF16(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		b.WriteByte(c)
		b.WriteByte(0)
	}
	return b.String()
}

// TestResponseWithoutBody has no text, and goes on unchanged.
func TestResponseWithoutBody(t *testing.T) {
	app := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Etag", `"x"`)
		if r.Method == http.MethodHead {
			w.Header().Set("Content-Length", "1234")
			return
		}
		status, _ := strconv.Atoi(r.URL.Query().Get("status"))
		w.WriteHeader(status)
	})
	load(t, guardConfig(t, "moderate_response\n"+app.proxy()))
	if got := call(t, http.MethodHead, base+"/", "", nil); got.status != 200 || got.header.Get("Content-Length") != "1234" {
		t.Errorf("HEAD: got %d %v, want 200 and the app's header", got.status, got.header)
	}
	for _, status := range []int{200, 204, 302, 304} {
		if got := call(t, http.MethodGet, base+"/?status="+strconv.Itoa(status), "", nil); got.status != status || got.header.Get("Etag") != `"x"` {
			t.Errorf("an answer with status %d: got %d %v, want it as it is", status, got.status, got.header)
		}
	}
}

// TestResponseOfLanguageModels becomes an answer that its clients understand.
func TestResponseOfLanguageModels(t *testing.T) {
	body := `{"id":"c1","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` + vile + `"},"finish_reason":"stop"}]}`
	app := answers(t, map[string]string{"Content-Type": "application/json", "Content-Length": strconv.Itoa(len(body)), "Content-Digest": "sha-256=:x:"}, 200, body)
	load(t, guardConfig(t, "moderate_response {\njson /choices/*/message/content\n}\n"+app.proxy()))
	got := get(t)
	want := `{"id":"c1","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":"content_filter"}]}`
	if got.status != 200 || string(got.body) != want || got.header.Get("Content-Length") != strconv.Itoa(len(want)) || got.header.Get("Content-Digest") != "" {
		t.Errorf("got %d %s %v, want 200 %s", got.status, got.body, got.header, want)
	}
}

func TestResponseReadsWhatItIsTold(t *testing.T) {
	app := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		_, _ = io.WriteString(w, r.URL.Query().Get("body"))
	})
	load(t, guardConfig(t, "moderate_response {\njson /reply /posts/*/text\n}\n"+app.proxy()))
	for body, rejected := range map[string]bool{
		`{"reply":"` + vile + `"}`:                    true,
		`{"posts":[{},{"text":"` + vile + `"}]}`:      true,
		`{"secret":"` + vile + `"}`:                   false,
		`{"posts":{"title":"` + vile + `"}}`:          false,
		`{"reply":{"deep":[1,"` + vile + `"]}}`:       true,
		`{"reply":"` + fine + `","x":"` + vile + `"}`: false,
	} {
		got := get2(t, "application/json", body)
		if (got.status == http.StatusUnprocessableEntity) != rejected {
			t.Errorf("%s: got %d %s, want rejected %v", body, got.status, got.body, rejected)
		}
	}
}

// get2 asks an app that answers what the query says.
func get2(t testing.TB, contentType, body string, headers ...string) reply {
	t.Helper()
	request, _ := http.NewRequest(http.MethodGet, base+"/", nil)
	query := request.URL.Query()
	query.Set("type", contentType)
	query.Set("body", body)
	return call(t, http.MethodGet, base+"/?"+query.Encode(), "", nil, append([]string{"Accept-Encoding", "identity"}, headers...)...)
}

// TestResponseReactions runs directives before anything is sent.
func TestResponseReactions(t *testing.T) {
	app := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Language", "en")
		w.Header().Set("X-App", "1")
		_, _ = io.WriteString(w, `{"text":"`+r.URL.Query().Get("text")+`"}`)
	})
	load(t, guardConfig(t, `
	moderate_response {
		reject_level harassment 1
		reject_level violence 1
		reject_level hate 1
		block zorkmid
		on reject {
			respond "no: {http.moderation.response.field}" 451
		}
		on review {
			header X-Queue {http.moderation.response.categories}
			header -X-App
		}
		on approve {
			header Content-Language de
		}
	}
	`+app.proxy()))
	ask := func(text string) reply {
		return call(t, http.MethodGet, base+"/?text="+strings.ReplaceAll(text, " ", "+"), "", nil)
	}
	got := ask("one zorkmid")
	if got.status != 451 || string(got.body) != "no: /text" || got.header.Get("Content-Type") != "text/plain; charset=utf-8" || got.header.Get("X-App") != "1" {
		t.Errorf("a blocked word: got %d %s %v, want 451 \"no: /text\" with the app's X-App", got.status, got.body, got.header)
	}
	got = ask(vile)
	if got.status != 200 || string(got.body) != `{"text":"`+vile+`"}` || !strings.Contains(got.header.Get("X-Queue"), "harassment") || got.header.Get("X-App") != "" ||
		got.header.Get("X-Moderation-Recommendation") != "review" || got.header.Get("Content-Language") != "en" || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("to be reviewed: got %d %s %v, want the answer with X-Queue and without X-App", got.status, got.body, got.header)
	}
	got = ask(fine)
	if got.status != 200 || got.header.Get("Content-Language") != "de" || got.header.Get("X-Moderation-Recommendation") != "" || string(got.body) != `{"text":"`+fine+`"}` {
		t.Errorf("approved: got %d %s %v, want the answer in another Content-Language", got.status, got.body, got.header)
	}
}

// TestResponseReactionsThatFail end in the site's error page.
func TestResponseReactionsThatFail(t *testing.T) {
	app := answers(t, map[string]string{"Content-Type": "text/html"}, 200, vile)
	load(t, guardConfig(t, "moderate_response {\non reject {\nerror \"hm\" 418\n}\n}\n"+app.proxy()+"\nhandle_errors {\nrespond \"page {http.error.status_code}\" {http.error.status_code}\n}"))
	if got := get(t); got.status != 418 || string(got.body) != "page 418" {
		t.Errorf("got %d %s %v, want 418 and the site's page", got.status, got.body, got.header)
	}
}

// TestReactionsToLongAnswers are run before the rest has come.
func TestReactionsToLongAnswers(t *testing.T) {
	const size = 200 << 10
	app := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, r.URL.Query().Get("text")+fineFollow(size))
	})
	load(t, guardConfig(t, `
	moderate_response {
		max_body 100KiB
		reject_level harassment 1
		reject_level violence 1
		reject_level hate 1
		block zorkmid
		on review {
			header X-Queue yes
		}
		on approve {
			@short query short=yes
			respond @short "short" 203
		}
	}
	`+app.proxy()))
	ask := func(text, more string) reply {
		return call(t, http.MethodGet, base+"/?text="+strings.ReplaceAll(text, " ", "+")+more, "", nil, "Accept-Encoding", "identity")
	}
	if got := ask(vile, ""); got.status != 200 || string(got.body) != vile+fineFollow(size) || got.header.Get("X-Queue") != "yes" ||
		got.header.Get("X-Moderation-Recommendation") != "review" || got.header.Get("Content-Type") != "text/html" {
		t.Errorf("%d, %d bytes, %v", got.status, len(got.body), got.header)
	}
	if got := ask(fine, ""); got.status != 200 || string(got.body) != fine+fineFollow(size) || got.header.Get("X-Queue") != "" {
		t.Errorf("%d, %d bytes, %v", got.status, len(got.body), got.header)
	}
	if got := ask(fine, "&short=yes"); got.status != 203 || string(got.body) != "short" {
		t.Errorf("got %d %.100s %v, want 203 \"short\"", got.status, got.body, got.header)
	}
	if got := ask("A zorkmid. ", ""); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a blocked word: got %d %.100s, want 422", got.status, got.body)
	}
}

// TestResponseUsesTheSitesErrorPage for what is rejected.
func TestResponseUsesTheSitesErrorPage(t *testing.T) {
	app := answers(t, map[string]string{"Content-Type": "text/html", "Etag": `"x"`}, 200, vile)
	load(t, guardConfig(t, "moderate_response\n"+app.proxy()+`
	handle_errors 422 {
		respond "sorry: {http.moderation.response.categories}" {http.error.status_code}
	}`))
	if got := get(t); got.status != http.StatusUnprocessableEntity || !strings.HasPrefix(string(got.body), "sorry: ") || got.header.Get("Etag") != "" {
		t.Errorf("got %d %s %v, want 422, the site's page, and no Etag", got.status, got.body, got.header)
	}
}

// TestResponseLimits moderates the first part of what is larger, or none of it, or sends none of it.
func TestResponseLimits(t *testing.T) {
	const size = 200 << 10
	late := fineFollow(size) + vile
	early := vile + fineFollow(size)
	for _, test := range []struct {
		options, body string
		status        int
	}{
		{"max_body 100KiB", late, 200}, {"max_body 100KiB", early, 422}, {"max_body 1MiB\nmax_text 1000000", late, 422},
		{"max_body 100KiB pass", early, 200}, {"max_body 100KiB reject", fineFollow(size), 422}, {"max_body 1MiB reject", fineFollow(size), 200},
		{"max_text 5000", late, 200}, {"max_text 5000", early, 422}, {"max_text 5000 pass", early, 200}, {"max_text 5000 reject", late, 422},
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%d/%v", test.options, strings.Index(test.body, vile), chunked), func(t *testing.T) {
				header := map[string]string{"Content-Type": "text/html"}
				if !chunked {
					header["Content-Length"] = strconv.Itoa(len(test.body))
				}
				app := answers(t, header, 200, test.body)
				load(t, guardConfig(t, "moderate_response {\n"+test.options+"\n}\n"+app.proxy()))
				got := get(t)
				if got.status != test.status || test.status == 200 && string(got.body) != test.body {
					t.Errorf("%d, %d bytes, %.200s", got.status, len(got.body), got.body)
				}
			})
		}
	}
}

// TestResponseIsObserved in placeholders, logs and metrics.
func TestResponseIsObserved(t *testing.T) {
	dir := t.TempDir()
	event := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + vile + "\"}}]}\n\n"
	bodies := map[string]string{"/vile": `{"a":"` + vile + `"}`, "/fine": `{"a":"` + fine + `"}`, "/none": `{"a":1}`, "/events": event}
	app := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/events" {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		_, _ = io.WriteString(w, bodies[r.URL.Path])
	})
	config := strings.Replace(guardConfig(t, `
	log {
		output file `+dir+`/access.log
	}
	header >X-Seen "{http.moderation.response.status} {http.moderation.response.recommendation} {http.moderation.response.field}"
	moderate_response
	`+app.proxy()), "log {\n\t\toutput discard\n\t}", "metrics\nlog {\n\t\toutput file "+dir+"/caddy.log\n\t}", 1)
	load(t, config)
	count := func(outcome string) (value float64) {
		metrics := string(call(t, http.MethodGet, "http://"+adminAddr+"/metrics", "", nil).body)
		_, rest, _ := strings.Cut(metrics, `caddy_moderation_guard_total{direction="response",outcome="`+outcome+`"} `)
		_, _ = fmt.Sscan(rest, &value)
		return value
	}
	rejected, approved := count("reject"), count("approve")
	for path, want := range map[string]string{"/vile": "judged reject /a", "/fine": "judged approve", "/none": "nothing approve"} {
		if got := call(t, http.MethodGet, base+path, "", nil); strings.TrimSpace(got.header.Get("X-Seen")) != want {
			t.Errorf("%s: %q, want %q", path, got.header.Get("X-Seen"), want)
		}
	}
	call(t, http.MethodGet, base+"/events", "", nil)
	if got := count("reject") - rejected; got != 2 {
		t.Errorf("%v rejections are counted", got)
	}
	if got := count("approve") - approved; got != 1 {
		t.Errorf("%v approvals are counted", got)
	}
	var access []byte
	for end := time.Now().Add(10 * time.Second); bytes.Count(access, []byte("\n")) < 4 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		access, _ = os.ReadFile(filepath.Join(dir, "access.log"))
	}
	server, _ := os.ReadFile(filepath.Join(dir, "caddy.log"))
	actions := map[any]int{}
	for line := range bytes.Lines(access) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatal(err)
		}
		if id, _ := fields["moderation_id"].(string); !strings.HasPrefix(id, "mod_") {
			t.Errorf("no id: %s", line)
		}
		actions[fields["moderation_response_action"]]++
	}
	if actions["refused"] != 1 || actions["aborted"] != 1 || actions["passed"] != 2 {
		t.Errorf("%v in %s", actions, access)
	}
	if bytes.Contains(server, []byte("worthless")) || !bytes.Contains(server, []byte("rejected a response")) {
		t.Errorf("the log of the server: %s", server)
	}
}

// TestResponseShadow changes nothing and holds nothing back.
func TestResponseShadow(t *testing.T) {
	proceed := make(chan bool)
	app := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip, x" {
			t.Errorf("the app was asked for %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		w.Header().Set("Etag", `"x"`)
		for _, word := range strings.SplitAfter(vile, " ") {
			_, _ = io.WriteString(w, word)
			w.(http.Flusher).Flush()
			<-proceed
		}
	})
	load(t, guardConfig(t, "moderate_response {\nshadow\n}\n"+app.proxy()))
	for _, media := range []string{"text/html", "text/plain", "text/event-stream", "application/json"} {
		request, _ := http.NewRequest(http.MethodGet, base+"/?type="+media, nil)
		request.Header.Set("Accept-Encoding", "gzip, x")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.SplitAfter(vile, " ") {
			part := make([]byte, len(word))
			if _, err := io.ReadFull(response.Body, part); err != nil || string(part) != word {
				t.Fatalf("%s: %v %q, want %q", media, err, part, word)
			}
			proceed <- true
		}
		rest, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || len(rest) > 0 || response.StatusCode != 200 || response.Header.Get("Etag") != `"x"` {
			t.Errorf("%s: got the error %v, %q and %v, want the end of the answer as it is", media, err, rest, response.Header)
		}
	}
}

// TestResponseThatCannotBeModerated goes on, or does not. The limits of an account are what makes moderating fail here.
func TestResponseThatCannotBeModerated(t *testing.T) {
	app := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		_, _ = io.WriteString(w, r.URL.Query().Get("body"))
	})
	page, events := "<p>"+vile, chunkOf(vile)+doneEvent
	for _, test := range []struct {
		policy, contentType, body string
		status                    int
		want                      string
	}{
		{"pass", "text/html", page, 200, page},
		{"pass", "text/event-stream", events, 200, events},
		{"pass", "text/plain", vile, 200, vile},
		{"reject", "text/html", page, 503, ""},
		{"reject", "text/event-stream", events, 200, filteredEvents},
		{"reject", "text/plain", vile, 503, ""},
	} {
		t.Run(test.policy+" "+test.contentType, func(t *testing.T) {
			load(t, guardConfig(t, "moderate_response {\naccount small\nenforce_quota\non_error "+test.policy+"\n}\n"+app.proxy()))
			for range 3 {
				if got := get2(t, "text/html", "<p>"+fine); got.status != 200 {
					t.Fatalf("within the limits: got %d %s, want 200", got.status, got.body)
				}
			}
			got := get2(t, test.contentType, test.body)
			if got.status != test.status || test.want != "" && string(got.body) != test.want || test.want == "" && !bytes.Contains(got.body, []byte("not_judged")) {
				t.Errorf("beyond the limits: got %d %s, want %d %s", got.status, got.body, test.status, test.want)
			}
		})
	}
}

// TestResponseOfOtherHandlers than a proxy is moderated, too.
func TestResponseOfOtherHandlers(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"vile.html": "<p>" + vile, "fine.html": "<p>" + fine, "vile.txt": vile, "vile.bin": vile, "big.txt": fineFollow(3 << 20)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	load(t, guardConfig(t, "root "+dir+"\nmoderate_response\nrespond /said `Fine. "+vile+"`\nfile_server"))
	for path, want := range map[string]int{"/vile.html": 422, "/fine.html": 200, "/vile.txt": 422, "/vile.bin": 200, "/said": 422, "/none": 404, "/big.txt": 200} {
		if got := call(t, http.MethodGet, base+path, "", nil); got.status != want || path == "/big.txt" && string(got.body) != fineFollow(3<<20) {
			t.Errorf("%s: got %d %.100s, want %d", path, got.status, got.body, want)
		}
	}
}
