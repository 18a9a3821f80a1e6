// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// landing is an app that takes uploads of any size: it knows what has come without keeping it.
type landing struct {
	*httptest.Server
	mu       sync.Mutex
	arrivals []landed
}

// landed is an upload as the app sees it.
type landed struct {
	sum  string // SHA-256 of what has come
	size int64
	vile bool // the vile text was in it
	err  error
	http.Header
}

// newLanding starts an app that answers "app" once all of a body has come.
func newLanding(t testing.TB) *landing {
	l := new(landing)
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &seeker{hash: sha256.New()}
		size, err := io.Copy(seen, r.Body)
		l.mu.Lock()
		l.arrivals = append(l.arrivals, landed{hex.EncodeToString(seen.hash.Sum(nil)), size, seen.found, err, r.Header})
		l.mu.Unlock()
		if err == nil {
			_, _ = io.WriteString(w, "app")
		}
	}))
	t.Cleanup(l.Close)
	return l
}

// A client says of an upload how it is to end.
const (
	endWhole  = "whole"  // all of it arrives
	endBroken = "broken" // the app may see a part of it, but not the end, and nothing vile
	endUnseen = "unseen" // the app does not see it
)

// endHeader is the field of a request that says so.
const endHeader = "X-End"

// take returns the whole uploads that have come since the last time.
func (l *landing) take() (arrived []landed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := l.arrivals[:0]
	for _, got := range l.arrivals {
		if got.Get(endHeader) == endWhole {
			arrived = append(arrived, got)
		} else {
			rest = append(rest, got)
		}
	}
	l.arrivals = rest
	return arrived
}

// check stops the app, and looks at the uploads that were not to arrive. The app may see their end after their clients.
func (l *landing) check(t testing.TB) {
	t.Helper()
	l.Close()
	for _, got := range l.take() {
		t.Errorf("a whole upload of %d bytes was not asked for", got.size)
	}
	for _, got := range l.arrivals {
		if got.err == nil || got.vile || got.Get(endHeader) != endBroken {
			t.Errorf("of an upload that was to be %s the app took %d bytes: error %v, vile %v", got.Get(endHeader), got.size, got.err, got.vile)
		}
	}
}

func (l *landing) proxy() string { return "reverse_proxy " + strings.TrimPrefix(l.URL, "http://") }

// seeker looks for the vile text in a stream.
type seeker struct {
	hash  hash.Hash
	tail  []byte
	found bool
}

func (s *seeker) Write(p []byte) (int, error) {
	s.hash.Write(p)
	start := min(len(p), len(vile))
	s.tail = append(s.tail, p[:start]...)
	s.found = s.found || bytes.Contains(s.tail, []byte(vile)) || bytes.Contains(p, []byte(vile))
	s.tail = append(s.tail, p[start:]...)
	s.tail = append(s.tail[:0], s.tail[max(0, len(s.tail)-len(vile)):]...)
	return len(p), nil
}

// section is a part of an upload: a field with a text, or a file of so many bytes.
type section struct {
	field string
	file  int64
}

// form makes an upload; it can be read any number of times.
type form []section

const uploadBoundary = "----WebKitFormBoundary7MA4YWxkTrZu0gW"

const uploadType = "multipart/form-data; boundary=" + uploadBoundary

// open returns the body. A file is random bytes.
func (f form) open() io.Reader {
	readers := make([]io.Reader, 0, 2*len(f)+1)
	for i, s := range f {
		header := fmt.Sprintf("--%s\r\nContent-Disposition: form-data; name=\"part%d\"", uploadBoundary, i)
		if s.file > 0 {
			readers = append(readers, strings.NewReader(header+"; filename=\"photo.jpg\"\r\nContent-Type: image/jpeg\r\n\r\n"),
				io.LimitReader(&photo{at: i}, s.file), strings.NewReader("\r\n"))
		} else {
			readers = append(readers, strings.NewReader(header+"\r\n\r\n"+s.field+"\r\n"))
		}
	}
	return io.MultiReader(append(readers, strings.NewReader("--"+uploadBoundary+"--\r\n"))...)
}

// photo is an endless file of random bytes.
type photo struct{ at int }

var pixels = sync.OnceValue(func() []byte {
	b := make([]byte, 1<<20+1)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
})

func (p *photo) Read(b []byte) (int, error) {
	p.at %= len(pixels())
	n := copy(b, pixels()[p.at:])
	p.at += n
	return n, nil
}

// size returns the length of the body.
func (f form) size(t testing.TB) int64 {
	t.Helper()
	size, err := io.Copy(io.Discard, f.open())
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// measure returns the length and the SHA-256 of the body.
func (f form) measure(t testing.TB) (size int64, sum string) {
	t.Helper()
	hash := sha256.New()
	size, err := io.Copy(hash, f.open())
	if err != nil {
		t.Fatal(err)
	}
	return size, hex.EncodeToString(hash.Sum(nil))
}

// uploader is a way of sending an upload.
type uploader struct {
	name    string
	chunked bool
	expect  bool
	http2   bool
}

var uploaders = []uploader{
	{name: "HTTP 1.1"}, {name: "chunked", chunked: true}, {name: "expecting to go on", expect: true},
	{name: "HTTP 2", http2: true}, {name: "HTTP 2 without a length", http2: true, chunked: true},
}

// send posts an upload.
func (u uploader) send(t testing.TB, path string, f form, end string) reply {
	t.Helper()
	transport := &http.Transport{ExpectContinueTimeout: 10 * time.Second}
	defer transport.CloseIdleConnections()
	if u.http2 {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	request, err := http.NewRequest(http.MethodPost, base+path, io.NopCloser(f.open()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", uploadType)
	request.Header.Set(endHeader, end)
	if !u.chunked {
		request.ContentLength = f.size(t)
	}
	if u.expect {
		request.Header.Set("Expect", "100-continue")
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if wanted := 1 + boolInt(u.http2); response.ProtoMajor != wanted {
		t.Fatalf("HTTP %d, not %d", response.ProtoMajor, wanted)
	}
	return reply{response.StatusCode, response.Header, body}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// uploadConfig is a configuration whose site also speaks HTTP/2 without TLS.
func uploadConfig(t testing.TB, site string) string {
	return strings.Replace(guardConfig(t, site), "persist_config off", "persist_config off\n\tservers {\n\t\tprotocols h1 h2c\n\t}", 1)
}

// eventually waits until something holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

const megabyte = 1 << 20

// TestUploadsStream sends 100 MB: they must arrive byte for byte, and nobody may hold them in memory.
func TestUploadsStream(t *testing.T) {
	app := newLanding(t)
	load(t, uploadConfig(t, "moderate\n"+app.proxy()))
	uploaders[0].send(t, "/", form{{field: fine}}, endWhole) // what is made once is not counted
	app.take()
	for _, test := range []struct {
		name      string
		form      form
		uploaders int
	}{
		{"text before the file", form{{field: fine}, {file: 100e6}}, 1},
		{"text after the file", form{{file: 100e6}, {field: fine}}, len(uploaders)},
		{"text between files", form{{file: 50e6}, {field: fine}, {file: 50e6}}, 1},
		{"no text", form{{file: 100e6}}, 1},
	} {
		size, sum := test.form.measure(t)
		for _, u := range uploaders[:test.uploaders] {
			t.Run(test.name+", "+u.name, func(t *testing.T) {
				stop := watchMemory(t, 48*megabyte)
				got := u.send(t, "/", test.form, endWhole)
				stop()
				if got.status != http.StatusOK || string(got.body) != "app" {
					t.Fatalf("got %d %s, want 200 from the app", got.status, got.body)
				}
				arrived := app.take()
				if len(arrived) != 1 || arrived[0].sum != sum || arrived[0].size != size || arrived[0].err != nil {
					t.Fatalf("%d bytes were sent, but what came is %+v", size, arrived)
				}
			})
		}
	}
}

// watchMemory looks at the heap until stop is called, which says if it ever grew by more than the bound.
func watchMemory(t testing.TB, bound uint64) (stop func()) {
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	before, most := memory.HeapInuse, memory.HeapInuse
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				runtime.ReadMemStats(&memory)
				most = max(most, memory.HeapInuse)
			}
		}
	}()
	return func() {
		t.Helper()
		close(done)
		<-stopped
		if most-before > bound {
			t.Errorf("the heap grew by %d MiB", (most-before)/megabyte)
		}
		t.Logf("the heap grew by %d KiB", (most-before)/1024)
	}
}

// TestUploadsAreRefused sends a vile text in every place: it must never get to the app, and the client must be told.
func TestUploadsAreRefused(t *testing.T) {
	app := newLanding(t)
	load(t, uploadConfig(t, "moderate\n"+app.proxy()))
	for _, test := range []struct {
		name  string
		form  form
		field string
		end   string
	}{
		{"before the file", form{{field: vile}, {file: 3e6}}, "part0", endUnseen},
		{"after the file", form{{file: 3e6}, {field: vile}}, "part1", endBroken},
		{"between files", form{{file: 3e6}, {field: vile}, {file: 10e6}}, "part1", endBroken},
		{"the second of two, before the file", form{{field: fine}, {field: vile}, {file: 3e6}}, "part1", endUnseen},
		{"the second of two, after the file", form{{file: 3e6}, {field: fine}, {field: vile}}, "part2", endBroken},
		{"on both sides of the file", form{{field: fine}, {file: 3e6}, {field: vile}}, "part2", endBroken},
		{"in a long text after the file", form{{file: 3e6}, {field: strings.Repeat(fine+"\r\n", 100) + vile}}, "part1", endBroken},
		{"after a file that fits into memory", form{{file: 3e5}, {field: vile}}, "part1", endUnseen},
		{"across the end of what is read first", form{{file: megabyte - 300}, {field: fine + " " + vile}}, "part1", endBroken},
	} {
		for _, u := range uploaders {
			t.Run(test.name+", "+u.name, func(t *testing.T) {
				got := u.send(t, "/", test.form, test.end)
				var problem refusal
				got.decodeJSON(t, &problem)
				if got.status != 422 || problem.Code != "content_rejected" || len(problem.Fields) == 0 || problem.Fields[0].Name != test.field {
					t.Fatalf("got %d %.500s, want 422 for the field %s", got.status, got.body, test.field)
				}
			})
		}
	}
	app.check(t)
}

// TestUploadLimits has what happens beyond max_body, which bounds texts, not files.
func TestUploadLimits(t *testing.T) {
	app := newLanding(t)
	site := ""
	for _, overflow := range []string{"reject", "pass", "prefix"} {
		site += "handle /" + overflow + " {\n moderate {\n max_body 64KiB " + overflow + "\n }\n " + app.proxy() + "\n }\n"
	}
	load(t, uploadConfig(t, site))
	long := strings.Repeat(fine+"\r\n", 64<<10/len(fine))
	// around is a form as large as max_body and so many bytes.
	around := func(more int, text string) form {
		size := form{{file: 1}, {field: text}}.size(t)
		return form{{file: 64<<10 + int64(more) - size + 1}, {field: text}}
	}
	for _, test := range []struct {
		name, path string
		form       form
		status     int
		end        string
	}{
		{"as large as can be", "/reject", around(0, fine), 200, endWhole},
		{"one byte less", "/reject", around(-1, fine), 200, endWhole},
		{"one byte more", "/reject", around(1, fine), 200, endWhole},
		{"vile, as large as can be", "/reject", around(0, vile), 422, endUnseen},
		{"vile, one byte less", "/reject", around(-1, vile), 422, endUnseen},
		{"vile, one byte more", "/reject", around(1, vile), 422, endUnseen},
		{"vile, across the end", "/reject", around(70, vile), 422, endBroken},
		{"a large file", "/reject", form{{file: 1e6}}, 200, endWhole},
		{"a long text", "/reject", form{{field: long + fine}}, 413, endBroken},
		{"a long text after a file", "/reject", form{{file: 1e6}, {field: long + fine}}, 413, endBroken},
		{"long together", "/reject", form{{field: long[:len(long)/2]}, {file: 1e6}, {field: long[:len(long)/2]}, {field: fine + fine + fine}}, 413, endBroken},
		{"pass a large file", "/pass", form{{file: 1e6}}, 200, endWhole},
		{"pass a long text", "/pass", form{{field: long + vile}}, 200, endWhole},
		{"pass a long text after a file", "/pass", form{{file: 1e6}, {field: long + vile}}, 200, endWhole},
		{"prefix of a large file", "/prefix", form{{file: 1e6}}, 200, endWhole},
		{"prefix of a long text", "/prefix", form{{field: long + vile}}, 200, endWhole},
		{"vile prefix of a long text", "/prefix", form{{field: vile + " " + long}}, 422, endBroken},
		{"prefix of a long text after a file", "/prefix", form{{file: 1e6}, {field: long + vile}}, 200, endWhole},
		{"vile prefix of a long text after a file", "/prefix", form{{file: 1e6}, {field: vile + " " + long}}, 422, endBroken},
	} {
		for _, u := range uploaders {
			t.Run(test.name+", "+u.name, func(t *testing.T) {
				got := u.send(t, test.path, test.form, test.end)
				if got.status != test.status {
					t.Fatalf("got %d %.500s, want %d", got.status, got.body, test.status)
				}
				arrived := app.take()
				if test.end != endWhole {
					return
				}
				if _, sum := test.form.measure(t); len(arrived) != 1 || arrived[0].sum != sum || arrived[0].err != nil {
					t.Fatalf("the app saw %+v", arrived)
				}
			})
		}
	}
	app.check(t)
}

// TestFieldsOfUploadsCannotHide has the guard read one field only, and the vile text in a part that some servers take
// for this field.
func TestFieldsOfUploadsCannotHide(t *testing.T) {
	app := newLanding(t)
	load(t, guardConfig(t, "moderate {\n form comment\n }\n"+app.proxy()))
	for _, test := range []struct {
		name, header string
		end          string
	}{
		{"the field", `Content-Disposition: form-data; name="comment"`, endUnseen},
		{"another field", `Content-Disposition: form-data; name="title"`, endWhole},
		{"two names", `Content-Disposition: form-data; name="title"; name="comment"`, endUnseen},
		{"an extended name", `Content-Disposition: form-data; name="title"; name*=utf-8''comment`, endUnseen},
		{"a name in pieces", `Content-Disposition: form-data; name*0=com; name*1=ment`, endUnseen},
		{"a name in percent", `Content-Disposition: form-data; name="%63omment"`, endUnseen},
		{"an escaped quote", `Content-Disposition: form-data; name="title\"; name="comment"`, endUnseen},
		{"two dispositions", "Content-Disposition: form-data; name=title\r\nContent-Disposition: form-data; name=comment", endUnseen},
		{"a folded name", "Content-Disposition: form-data;\r\n name=comment; x=\"; name=title\"", endUnseen},
		{"another disposition", "Content-Disposition: inline; name=comment", endUnseen},
		{"no disposition", "Content-Type: text/plain", endUnseen},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := "--b\r\n" + test.header + "\r\n\r\n" + vile + "\r\n--b--\r\n"
			got := call(t, http.MethodPost, base, "", strings.NewReader(body), "Content-Type", "multipart/form-data; boundary=b", endHeader, test.end)
			if arrived := app.take(); (got.status == 200) != (test.end == endWhole) ||
				len(arrived) != boolInt(test.end == endWhole) {
				t.Errorf("%d %s, and the app saw %d", got.status, got.body, len(arrived))
			}
		})
	}
	app.check(t)
}

// slowly gives its bytes in small pieces with pauses.
type slowly struct{ io.Reader }

func (s slowly) Read(p []byte) (int, error) {
	time.Sleep(2 * time.Millisecond)
	return s.Reader.Read(p[:min(len(p), 5000)])
}

// TestSlowUploads sends slower than the timeout allows for a body that is held: the files of an upload are not.
func TestSlowUploads(t *testing.T) {
	app := newLanding(t)
	load(t, guardConfig(t, "moderate {\n max_body 1KiB\n timeout 500ms\n }\n"+app.proxy()))
	for _, test := range []struct {
		name   string
		form   form
		status int
		end    string
	}{
		{"fine", form{{file: 2e6}, {field: fine}}, 200, endWhole},
		{"vile", form{{file: 2e6}, {field: vile}}, 422, endBroken},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := call(t, http.MethodPost, base, "", slowly{test.form.open()}, "Content-Type", uploadType, endHeader, test.end)
			if got.status != test.status {
				t.Fatalf("got %d %s, want %d", got.status, got.body, test.status)
			}
			arrived := app.take()
			if test.end != endWhole {
				return
			}
			if _, sum := test.form.measure(t); len(arrived) != 1 || arrived[0].sum != sum {
				t.Fatalf("the app saw %+v", arrived)
			}
		})
	}
	app.check(t)
}

// readerFunc is a function that reads.
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestAbortedUploadsLeakNothing has clients leave in the middle: of what is read first, of a file, of a text that is
// held, and right after a text that is refused.
func TestAbortedUploadsLeakNothing(t *testing.T) {
	app := newLanding(t)
	load(t, uploadConfig(t, "moderate {\n max_body 16KiB\n }\n"+app.proxy()))
	uploads := []form{
		{{file: 10e3}, {field: fine}},
		{{field: fine}, {file: 300e3}},
		{{file: 100e3}, {field: strings.Repeat(fine, 100)}},
		{{file: 100e3}, {field: vile}, {file: 100e3}},
	}
	// left is a client that cancels its request over HTTP/2.
	left := func(f form) {
		connection, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		transport := &http.Transport{Protocols: new(http.Protocols),
			DialContext: func(context.Context, string, string) (net.Conn, error) { return connection, nil }}
		transport.Protocols.SetUnencryptedHTTP2(true)
		ctx, cancel := context.WithCancel(t.Context())
		body := io.MultiReader(io.LimitReader(f.open(), f.size(t)-100), readerFunc(func([]byte) (int, error) {
			cancel()
			<-ctx.Done()
			return 0, ctx.Err()
		}))
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, base, io.NopCloser(body))
		if err != nil {
			t.Error(err)
			return
		}
		request.Header.Set("Content-Type", uploadType)
		request.Header.Set(endHeader, endBroken)
		if response, err := transport.RoundTrip(request); err == nil { // it was refused before
			_ = response.Body.Close()
		}
		cancel()
	}
	abort := func(f form) {
		size := f.size(t)
		connection, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Error(err)
			return
		}
		defer connection.Close()
		// It says that there is more than it sends. The server may be quicker to leave.
		_, _ = fmt.Fprintf(connection, "POST / HTTP/1.1\r\nHost: localhost:%s\r\nContent-Type: %s\r\n%s: %s\r\nContent-Length: %d\r\n\r\n", port, uploadType, endHeader, endBroken, size+1000)
		_, _ = io.CopyN(connection, f.open(), size-100)
	}
	round := func(times int) {
		var clients sync.WaitGroup
		for c := range 4 {
			clients.Go(func() {
				for i := range times / 4 {
					if f := uploads[c%len(uploads)]; i%4 == 0 {
						left(f)
					} else {
						abort(f)
					}
				}
			})
		}
		clients.Wait()
	}
	settled := func() (goroutines int, heap uint64) {
		var memory runtime.MemStats
		goroutines = runtime.NumGoroutine()
		for calm := 0; calm < 10; calm++ {
			time.Sleep(20 * time.Millisecond)
			if now := runtime.NumGoroutine(); now != goroutines {
				goroutines, calm = now, 0
			}
		}
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&memory)
		return goroutines, memory.HeapInuse
	}
	round(40)
	goroutines, heap := settled()
	times := 400
	if testing.Short() {
		times = 80
	}
	round(times)
	eventually(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= goroutines+8 })
	if after, grown := settled(); after > goroutines+8 || grown > heap+16*megabyte {
		t.Errorf("%d goroutines became %d, and %d bytes %d", goroutines, after, heap, grown)
	}
	if got := uploaders[0].send(t, "/", form{{file: 1e6}, {field: fine}}, endWhole); got.status != http.StatusOK {
		t.Errorf("after that: %d %s", got.status, got.body)
	}
	if arrived := app.take(); len(arrived) != 1 || arrived[0].err != nil {
		t.Errorf("after that the app saw %+v", arrived)
	}
	app.check(t)
}

// TestUploadsPassSeveralGuards sees that each of several guards judges what comes late in a large body, by its own
// policy.
func TestUploadsPassSeveralGuards(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, `
	handle /other-words {
		route {
			moderate
			moderate {
				block zorkmid
			}
			`+app.proxy()+`
		}
	}
	handle /other-levels {
		route {
			moderate {
				threshold harassment 0.99999
				reject_level harassment 1
				threshold violence 0.99999
				reject_level violence 1
			}
			moderate
			`+app.proxy()+`
		}
	}
	handle /first {
		route {
			moderate {
				block zorkmid
			}
			moderate
			`+app.proxy()+`
		}
	}`))
	large := strings.Repeat("some bread ", 200_000)
	for _, test := range []struct {
		path, end string
		status    int
	}{
		{"/other-words", "a zorkmid for you", 422},
		{"/other-words", vile, 422},
		{"/other-words", fine, 200},
		{"/other-levels", "Shut up, you pathetic idiot.", 422},
		{"/first", "a zorkmid for you", 422},
		{"/first", vile, 422},
		{"/first", fine, 200},
	} {
		got := call(t, http.MethodPost, base+test.path, "", strings.NewReader(large+"\n"+test.end), "Content-Type", "text/plain")
		if got.status != test.status {
			t.Errorf("%s %s: got %d %.200s, want %d", test.path, test.end, got.status, got.body, test.status)
		}
		arrived := app.whole()
		if test.status == 200 && (len(arrived) != 1 || string(arrived[0].body) != large+"\n"+test.end) {
			t.Errorf("%s: the app got %d requests", test.path, len(arrived))
		}
		if test.status != 200 && len(arrived) > 0 {
			t.Errorf("%s %s: the app got all of it", test.path, test.end)
		}
	}
}

// TestUploadsComeInPackets sees that fields which say something only together are judged together, even when each of
// them comes late and by itself.
func TestUploadsComeInPackets(t *testing.T) {
	app := newBackend(t)
	load(t, guardConfig(t, "moderate\n"+app.proxy()))
	for _, test := range []struct {
		name   string
		fields []string
		status int
	}{
		{"words", strings.Fields(vile), 422},
		{"harmless words", strings.Fields(fine), 200},
	} {
		read, write := io.Pipe()
		go func() {
			_, _ = io.WriteString(write, part(strings.Repeat("\x00\xff\x13\x07", 400_000), `Content-Disposition: form-data; name="f"; filename="a.png"`, "Content-Type: image/png"))
			for i, text := range test.fields {
				time.Sleep(5 * time.Millisecond)
				_, _ = io.WriteString(write, field(fmt.Sprint("w", i), text))
			}
			_, _ = io.WriteString(write, lastPart)
			_ = write.Close()
		}()
		got := call(t, http.MethodPost, base+"/x", "", read, "Content-Type", "multipart/form-data; boundary=xyz")
		_ = read.Close()
		if got.status != test.status {
			t.Errorf("%s: got %d %.200s, want %d", test.name, got.status, got.body, test.status)
		}
	}
}
