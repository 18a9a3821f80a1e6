// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/storagetest"
)

// disk is what the stores of the module "waiting" are on.
var disk struct {
	// commit, where it is set, is what every commit waits for; an error fails it.
	commit atomic.Pointer[func(context.Context) error]
	// documents, where it is set, is what every change of documents waits for; an error fails it.
	documents atomic.Pointer[func(context.Context) error]
	// reading, where it is set, is what every reading of documents waits for; an error fails it.
	reading atomic.Pointer[func(context.Context) error]
	// health is what hinders the store.
	health atomic.Pointer[error]
	// unread says that accounts cannot be read.
	unread atomic.Bool
	closed atomic.Int64
	// mode, where it is set, is that of a store which several nodes share.
	mode atomic.Pointer[app.Mode]
}

// Waiting is a storage module for tests, whose commits take as long as a test wants.
type Waiting struct{ Flaky }

func (*Waiting) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "moderation.storage.waiting", New: func() caddy.Module { return new(Waiting) }}
}

func (*Waiting) Open(context.Context, *zap.Logger) (storage.Store, error) {
	return &waiting{Memory: storagetest.NewMemory()}, nil
}

func init() { caddy.RegisterModule(new(Waiting)) }

type waiting struct{ *storagetest.Memory }

func (s *waiting) Record(charge quota.Charge, outcome quota.Outcome) quota.Settlement {
	commit := disk.commit.Load()
	if commit == nil {
		return s.Memory.Record(charge, outcome)
	}
	return settlement(func(ctx context.Context) error {
		err := (*commit)(ctx)
		if errors.Is(err, storage.ErrUnavailable) {
			outcome = quota.Outcome{Refund: true}
		}
		return errors.Join(err, s.Memory.Settle(ctx, charge, outcome))
	})
}

func (s *waiting) ChangeDocuments(ctx context.Context, collection string, changes ...documents.Change) error {
	if commit := disk.documents.Load(); commit != nil {
		if err := (*commit)(ctx); err != nil {
			return err
		}
	}
	return s.Memory.ChangeDocuments(ctx, collection, changes...)
}

func (s *waiting) Documents(ctx context.Context, collection string, keys ...string) ([]documents.Document, error) {
	if read := disk.reading.Load(); read != nil {
		if err := (*read)(ctx); err != nil {
			return nil, err
		}
	}
	return s.Memory.Documents(ctx, collection, keys...)
}

func (s *waiting) Mode() string {
	if mode := disk.mode.Load(); mode != nil {
		return string(*mode)
	}
	return ""
}

func (s *waiting) Take(ctx context.Context, charge quota.Charge) (quota.Counts, quota.Window, error) {
	if app.Mode(s.Mode()) == app.Deny {
		return quota.Counts{}, "", storage.ErrUnavailable
	}
	counts, refused, err := s.Memory.Take(ctx, charge)
	counts.Basis = map[app.Mode]quota.Basis{
		app.Local: quota.LocalCounts, app.Allow: quota.UnknownCounts,
	}[app.Mode(s.Mode())]
	return counts, refused, err
}

func (s *waiting) Account(ctx context.Context, id string) (quota.Account, error) {
	if disk.unread.Load() {
		return quota.Account{}, storage.ErrUnavailable
	}
	return s.Memory.Account(ctx, id)
}

func (s *waiting) Settle(ctx context.Context, charge quota.Charge, outcome quota.Outcome) error {
	return s.Record(charge, outcome).Wait(ctx)
}

func (s *waiting) Health() error {
	if err := disk.health.Load(); err != nil {
		return *err
	}
	return s.Memory.Health()
}

func (s *waiting) Close() error {
	disk.closed.Add(1)
	return s.Memory.Close()
}

// onWaiting is a guard's configuration over a store of the module "waiting".
func onWaiting(t *testing.T, site string) string {
	t.Cleanup(func() {
		disk.commit.Store(nil)
		disk.reading.Store(nil)
		disk.health.Store(nil)
		disk.unread.Store(false)
		disk.mode.Store(nil)
	})
	return strings.Replace(guardConfig(t, site), "storage badger", "storage waiting", 1)
}

// guardErrors reads how many messages guards could not count or moderate.
func guardErrors(t *testing.T, direction, reason string) int {
	t.Helper()
	replaced = true // the admin endpoint is
	got := call(t, http.MethodGet, "http://"+adminAddr+"/metrics", "", nil)
	for line := range strings.Lines(string(got.body)) {
		var n int
		if _, err := fmt.Sscanf(line, `caddy_moderation_guard_errors_total{direction="`+direction+`",reason="`+reason+`"} %d`, &n); err == nil {
			return n
		}
	}
	if got.status != http.StatusOK || !strings.Contains(string(got.body), "caddy_moderation_build_info") {
		t.Fatalf("the metrics: got %d %.500s", got.status, got.body)
	}
	return 0
}

// largeForm is an upload whose file is larger than what a guard holds, with a text before and another behind it.
func largeForm(last string) (contentType, body string) {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	_ = form.WriteField("title", fine)
	file, _ := form.CreateFormFile("photo", "photo.jpg")
	_, _ = file.Write(bytes.Repeat([]byte{0xff, 0xd8, 0}, 1<<20))
	_ = form.WriteField("comment", last)
	_ = form.Close()
	return form.FormDataContentType(), b.String()
}

// TestAnswersWaitForTheirCount guards against answers that a client has read and whose count a crash can still take: of
// no answer that counts a byte is there before the count is committed. When the commit fails, the guard's policy
// decides.
func TestAnswersWaitForTheirCount(t *testing.T) {
	backend := newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		if strings.HasPrefix(r.URL.Path, "/early") {
			w.WriteHeader(http.StatusEarlyHints)
		}
		for part := range strings.SplitAfterSeq(r.URL.Query().Get("body"), "|") {
			_, _ = io.WriteString(w, strings.TrimSuffix(part, "|"))
			if part != strings.TrimSuffix(part, "|") {
				_ = http.NewResponseController(w).Flush()
			}
		}
	})
	const inbound, outbound = "request", "response"
	uploadType, upload := largeForm(fine + " And more.")
	post, plain := `{"comment":"`+fine+`"}`, "app"
	handlers := func(directive, more, policy string) string {
		return directive + " {\naccount acme\non_error " + policy + "\n" + more + "\n}\n"
	}
	for _, test := range []struct {
		name        string
		direction   string
		site        func(policy string) string
		contentType string // of the request; none is a GET
		body        string
		answerType  string // of the app
		answer      string
		status      int  // when it is counted
		streams     bool // the header goes out before there is anything to count
		never       bool // nothing is ever refused
	}{
		{name: "a post", direction: inbound, contentType: "application/json", body: post, answer: plain, status: 200},
		{name: "a post with early hints", direction: inbound, contentType: "application/json", body: post, answer: plain, status: 200},
		{name: "a post whose answer is flushed", direction: inbound, contentType: "application/json", body: post, answer: "a|b|c", status: 200},
		{name: "a refused post", direction: inbound, contentType: "application/json", body: `{"comment":"` + vile + `"}`, status: 422},
		{name: "an upload", direction: inbound, contentType: uploadType, body: upload, answer: plain, status: 200},
		{name: "a post in shadow mode", direction: inbound, contentType: "application/json", body: post, answer: plain, status: 200, never: true,
			site: func(policy string) string { return handlers("moderate", "shadow", policy) }},
		{name: "a post that a matcher has judged", direction: inbound, contentType: "application/json", body: post, answer: plain, status: 200,
			site: func(policy string) string {
				return "@toxic moderation reject\nrespond @toxic no 403\n" + handlers("moderate", "", policy)
			}},
		{name: "a post that an error route answers", direction: inbound, contentType: "application/json", body: post, status: 418,
			site: func(policy string) string {
				return handlers("moderate", "", policy) + "error 418\nhandle_errors 418 {\nrespond teapot 418\n}\n"
			}},
		{name: "a post that nobody answers", direction: inbound, contentType: "application/json", body: post, status: 200,
			site: func(policy string) string {
				return "route {\n" + handlers("moderate", "", policy) + "}\nroute {\nrespond 200\n}\n"
			}},
		{name: "an answer", direction: outbound, answerType: "text/plain", answer: fine, status: 200},
		{name: "a refused answer", direction: outbound, answerType: "text/plain", answer: vile, status: 422},
		{name: "an answer in shadow mode", direction: outbound, answerType: "text/plain", answer: fine, status: 200, never: true, streams: true,
			site: func(policy string) string { return handlers("moderate_response", "shadow", policy) }},
		{name: "a stream of events", direction: outbound, answerType: "text/event-stream", answer: chunkOf(fine) + "|" + doneEvent, status: 200, streams: true},
		{name: "a stream of text", direction: outbound, answerType: "text/plain", answer: fine + " And |then.", status: 200, streams: true},
	} {
		if test.site == nil {
			test.site = func(policy string) string {
				return handlers(map[string]string{inbound: "moderate", outbound: "moderate_response"}[test.direction], "", policy)
			}
		}
		for _, policy := range []string{"pass", "reject"} {
			for _, fails := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/fails %v", test.name, policy, fails), func(t *testing.T) {
					load(t, onWaiting(t, test.site(policy)+backend.proxy()))
					waits, committed, gate := make(chan struct{}, 16), new(atomic.Bool), make(chan struct{})
					commit := func(ctx context.Context) error {
						waits <- struct{}{}
						select {
						case <-gate:
						case <-ctx.Done():
							return ctx.Err() // nobody waits
						}
						if fails {
							return fmt.Errorf("%w: the disk is full", storage.ErrUnavailable)
						}
						return nil
					}
					disk.commit.Store(&commit)
					before := guardErrors(t, test.direction, "account")
					type answer struct {
						reply
						early bool
						err   error
					}
					answers := make(chan answer, 1)
					go func() {
						method, body := http.MethodPost, io.Reader(strings.NewReader(test.body))
						if test.contentType == "" {
							method, body = http.MethodGet, nil
						}
						path := "/"
						if strings.Contains(test.name, "early") {
							path = "/early"
						}
						request, _ := http.NewRequest(method, base+path, body)
						query := request.URL.Query()
						query.Set("type", test.answerType)
						query.Set("body", test.answer)
						request.URL.RawQuery = query.Encode()
						if test.contentType != "" {
							request.Header.Set("Content-Type", test.contentType)
						}
						response, err := client.Do(request)
						if err != nil {
							answers <- answer{err: err}
							return
						}
						defer response.Body.Close()
						got := answer{early: !committed.Load() && !test.streams}
						first := make([]byte, 1)
						n, _ := io.ReadFull(response.Body, first)
						got.early = got.early || !committed.Load() && !test.never
						rest, err := io.ReadAll(response.Body)
						got.early = got.early || !committed.Load() // at least the end waits
						got.reply, got.err = reply{
							response.StatusCode, response.Header, append(first[:n], rest...),
						}, err
						answers <- got
					}()
					<-waits
					time.Sleep(50 * time.Millisecond) // in which an answer that does not wait would come
					committed.Store(true)
					close(gate)
					got := <-answers
					if got.early {
						t.Error("an answer was there before its count was committed")
					}
					refused := fails && policy == "reject" && !test.never
					want := test.status
					if refused && !(test.streams && test.answerType == "text/event-stream") {
						want = http.StatusServiceUnavailable
					}
					if got.status != want || refused && strings.Contains(string(got.body), fine[:20]) ||
						(got.err != nil) {
						t.Errorf("got %d %s, error %v, want %d", got.status, got.body, got.err, want)
					}
					disk.commit.Store(nil)
					usage, err := services(t).Gate.Usage(t.Context(), "acme")
					if err != nil {
						t.Fatal(err)
					}
					counted, uncounted := usage.Counts.Period, guardErrors(t, test.direction, "account")-before
					if uncounted < 0 { // the endpoint that was being replaced told the number before
						uncounted += before
					}
					if fails && (counted != 0 || uncounted != 1) || !fails && (counted != 1 || uncounted != 0) {
						t.Errorf("counted %d, told of %d that were not", counted, uncounted)
					}
				})
			}
		}
	}
}

// TestStreamsCountWhatIsFlaggedLate in an answer whose count was settled when it began.
func TestStreamsCountWhatIsFlaggedLate(t *testing.T) {
	backend := newBackend(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, chunkOf(fine))
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, chunkOf(" "+vile)+doneEvent)
	})
	load(t, onWaiting(t, "moderate_response {\naccount acme\n}\n"+backend.proxy()))
	if got := get2path(t, "/"); !strings.HasSuffix(string(got.body), filteredEvents) {
		t.Errorf("got %s, want the end of a rejected stream", got.body)
	}
	usage, err := services(t).Gate.Usage(t.Context(), "acme")
	if err != nil || usage.Counts.Period != 1 || usage.Flagged["violence"] != 1 {
		t.Errorf("the usage is %+v, %v, want one message, flagged for violence", usage, err)
	}
}

// TestUploadsCountWhatIsFlaggedLate behind a file that is larger than what the guard holds, in an upload that was
// settled before.
func TestUploadsCountWhatIsFlaggedLate(t *testing.T) {
	backend := newBackend(t)
	for mode, status := range map[string]int{"": http.StatusUnprocessableEntity, "shadow": http.StatusOK} {
		load(t, onWaiting(t, "moderate {\naccount acme\n"+mode+"\n}\n"+backend.proxy()))
		contentType, body := largeForm(vile)
		if got := send(t, contentType, body); got.status != status {
			t.Errorf("%q: got %d %s, want %d", mode, got.status, got.body, status)
		}
		usage, err := services(t).Gate.Usage(t.Context(), "acme")
		if err != nil || usage.Counts.Period != 1 || usage.Flagged["violence"] != 1 {
			t.Errorf("%q: the usage is %+v, %v, want one message, flagged for violence", mode, usage, err)
		}
	}
}

// TestGuardsWhoseAccountIsDeleted guards against threats that pass, and posts that are lost, because the account that a
// guard counts for is gone: before a request comes, and while it is counted.
func TestGuardsWhoseAccountIsDeleted(t *testing.T) {
	backend := newBackend(t)
	for _, test := range []struct {
		name, more string
		status     int
	}{
		{"counts", "", http.StatusOK},
		{"fails closed", "on_error reject", http.StatusOK},
		{"enforces", "enforce_quota", http.StatusOK},
		{"enforces and fails closed", "enforce_quota\non_error reject", http.StatusServiceUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			load(t, onWaiting(t, "moderate {\naccount fleeting\n"+test.more+"\n}\n"+backend.proxy()))
			gate := services(t).Gate
			create := func() {
				if _, err := gate.CreateAccount(t.Context(), quota.Account{ID: "fleeting", Tier: "unlimited"}); err != nil {
					t.Fatal(err)
				}
			}
			post := func(text string, want, uncounted int) {
				t.Helper()
				before := guardErrors(t, "request", "account")
				if got := send(t, "application/json", `{"comment":"`+text+`"}`); got.status != want {
					t.Errorf("%d %s, want %d", got.status, got.body, want)
				}
				if got := guardErrors(t, "request", "account") - before; got != uncounted {
					t.Errorf("told of %d that were not counted, want %d", got, uncounted)
				}
			}
			create()
			meanwhile := func(context.Context) error { return gate.DeleteAccount(t.Context(), "fleeting") }
			disk.commit.Store(&meanwhile)
			post(fine, http.StatusOK, 0) // it was counted, and the count is deleted with the account
			disk.commit.Store(nil)
			post(fine, test.status, 1)
			create()
			post(fine, http.StatusOK, 0)
			post(vile, http.StatusUnprocessableEntity, 0)
			if usage, err := gate.Usage(t.Context(), "fleeting"); err != nil || usage.Counts.Period != 2 {
				t.Errorf("the usage is %+v, %v, want two messages", usage, err)
			}
		})
	}
}

// TestLogOfAFailingStoreIsShort guards against a disk that is full of lines about a full disk.
func TestLogOfAFailingStoreIsShort(t *testing.T) {
	backend := newBackend(t)
	file := filepath.Join(t.TempDir(), "log")
	config := onWaiting(t, "moderation_api\nhandle /comments {\nmoderate {\naccount acme\n}\n"+backend.proxy()+"\n}")
	load(t, strings.Replace(config, "output discard", "output file "+file, 1))
	full := fmt.Errorf("%w: the disk is full", storage.ErrUnavailable)
	fail := func(context.Context) error { return full }
	disk.commit.Store(&fail)
	disk.health.Store(&full)
	const requests = 1000 // of each kind
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			for range requests / 10 {
				if got := moderate(t, acmeKey, `{"content":"text"}`); got.status != http.StatusServiceUnavailable {
					t.Errorf("the API: got %d %s, want 503", got.status, got.body)
				}
				if got := send(t, "application/json", `{"comment":"`+fine+`"}`); got.status != http.StatusOK {
					t.Errorf("a guarded post: got %d %s, want 200", got.status, got.body)
				}
			}
		})
	}
	began := time.Now()
	group.Wait()
	seconds := int(time.Since(began)/time.Second) + 1
	// Lines that were left out are told of when no more of them come.
	var counted map[string]int
	for range 100 {
		time.Sleep(100 * time.Millisecond)
		written, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		counted = map[string]int{}
		lines := map[string]int{}
		for line := range bytes.Lines(written) {
			var entry struct {
				Level, Msg string
				ID         string `json:"moderation_id"`
				Account    string
				LeftOut    int `json:"left_out"`
			}
			if json.Unmarshal(line, &entry) != nil || entry.Level != "error" {
				continue
			}
			message := strings.TrimSuffix(entry.Msg, " (more of the same)")
			lines[message]++
			counted[message] += entry.LeftOut
			if message == entry.Msg {
				counted[message]++
			}
		}
		for message, n := range lines {
			if n > seconds+1 {
				t.Fatalf("%d lines in %d s: %s", n, seconds, message)
			}
		}
		if counted["a request could not be counted and was answered 503"] == requests && counted["a message that was judged could not be counted"] == requests &&
			counted["the store is unavailable: what must be counted or kept is refused"] == 1 {
			return
		}
	}
	t.Errorf("the lines tell of %v", counted)
}

// TestReadyAndStoreUpGoByHealth and not by whether the last request happened to succeed: a store that cannot keep what
// it must is not ready although it can be read.
func TestReadyAndStoreUpGoByHealth(t *testing.T) {
	load(t, onWaiting(t, "moderation_api"))
	replaced = true // the admin endpoint is
	look := func() (status int, body string, up bool) {
		ready := call(t, http.MethodGet, "http://"+adminAddr+"/moderation/health/ready", "", nil)
		metrics := call(t, http.MethodGet, "http://"+adminAddr+"/metrics", "", nil)
		return ready.status, string(ready.body), bytes.Contains(metrics.body, []byte("\ncaddy_moderation_store_up 1\n"))
	}
	for _, sick := range []bool{false, true, false} {
		disk.health.Store(nil)
		if sick {
			full := fmt.Errorf("%w: the disk is full", storage.ErrUnavailable)
			disk.health.Store(&full)
		}
		if got := moderate(t, acmeKey, `{"content":"text"}`); got.status != http.StatusOK {
			t.Errorf("got %d %s, want 200", got.status, got.body)
		}
		status, body, up := look()
		if sick && (status != http.StatusServiceUnavailable || !strings.Contains(body, "the disk is full") || up) || !sick && (status != http.StatusOK || !up) {
			t.Errorf("sick %v: %d %s, up %v", sick, status, body, up)
		}
	}
	reload(t, "{\nadmin "+adminAddr+"\npersist_config off\n}\n"+base+" {\nmoderate\nrespond ok\n}\n")
	metrics := call(t, http.MethodGet, "http://"+adminAddr+"/metrics", "", nil)
	if status, body, _ := look(); status != http.StatusOK || bytes.Contains(metrics.body, []byte("caddy_moderation_store_up")) {
		t.Errorf("a guard alone: %d %s", status, body)
	}
}

// Interface guard
var _ app.Storage = (*Waiting)(nil)
