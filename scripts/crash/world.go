// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/faults"
	"github.com/caddy-moderation/caddy-moderation/scripts/internal/server"
)

// timeout is how long anything may take: an answer, a recovery, an alarm. CI machines are slow and busy: only what
// never happens is an error.
const timeout = 30 * time.Second

// fewLines is how many lines a server may log in a round, whatever happens to it and however many requests it refuses.
const fewLines = 300

// The accounts of the clients. keysAccount and those that clients make are stored, the others are declared.
const (
	apiAccount      = "api"
	guardAccount    = "guard"
	enforcedAccount = "enforced"
	keysAccount     = "keys"
)

// world is what one round has for itself: a server with its folder, its clients and their ledger.
type world struct {
	name   string
	caddy  string
	folder string
	dir    string // of the store
	secret string // of apiAccount
	host   string
	site   string // addresses
	other  string
	admin  string
	ledger *ledger
	random *rand.Rand

	process    *server.Process
	supervisor *faults.Supervisor
	env        []string
	wrap       []string        // a command that starts the server's command
	log        strings.Builder // of the processes that have ended

	// up says that the server must answer, at least on the site that needs no store.
	up atomic.Bool
	// reloading says that connections may break, because the configuration is being replaced.
	reloading atomic.Bool
	// reloaded is when it was replaced, as a Unix time in nanoseconds.
	reloaded atomic.Int64
	// reviewSecret is a key that may read the review queue, in the rounds that have one.
	reviewSecret string
	// stuck says that the store cannot keep anything while it is compared.
	stuck   bool
	watch   context.CancelFunc
	load    context.CancelFunc
	clients sync.WaitGroup
	refused atomic.Int64 // answers of 503
	answers atomic.Int64 // good ones
	bytes   atomic.Int64 // of feedback that was acknowledged

	mu         sync.Mutex
	violations []string
	notes      []string
	samples    []sample
	undo       []func()
}

// sample holds the counts at an instant.
type sample struct {
	at      time.Time
	answers int64
	counts  map[string]*counts
}

// worlds counts them.
var worlds atomic.Int64

func newWorld(name, caddy string, seed uint64) (*world, error) {
	folder, err := os.MkdirTemp("", "caddy-moderation-crash-")
	if err != nil {
		return nil, err
	}
	// A loopback address of its own: outgoing connections do not take its ports.
	n := worlds.Add(1)
	host := fmt.Sprintf("127.%d.%d.%d", 1+os.Getpid()%254, n/254%254, 1+n%254)
	w := &world{
		name: name, caddy: caddy, folder: folder, dir: filepath.Join(folder, "data"), host: host,
		site: host + ":8080", other: host + ":8081", admin: host + ":2019",
		ledger: newLedger(), random: rand.New(rand.NewPCG(seed, 0)),
	}
	w.secret = "mod_sk_" + w.letters(32)
	return w, nil
}

// letters returns n random letters.
func (w *world) letters(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(w.random.IntN(26))
	}
	return string(b)
}

// between returns a random duration from low to high.
func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.random.Int64N(int64(high-low)))
}

// violate notes that a promise was broken.
func (w *world) violate(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if len(w.violations) < 20 && !slices.Contains(w.violations, text) {
		w.violations = append(w.violations, text)
	}
}

func (w *world) broken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.violations)
}

// atEnd registers a function to be called when the round is over, the last one first.
func (w *world) atEnd(f func()) { w.undo = append(w.undo, f) }

// close ends the clients and the server, and calls what atEnd has registered.
func (w *world) close() {
	w.rest()
	w.end()
	for _, f := range slices.Backward(w.undo) {
		f()
	}
	w.undo = nil
}

// caddyfile returns the configuration with the store in a directory.
func (w *world) caddyfile(dir string) string {
	review := ""
	if w.reviewSecret != "" {
		review = reviewOptions
	}
	return fmt.Sprintf(`{
	admin %[1]s {
		origins %[1]s
	}
	default_bind %[2]s
	persist_config off
	log {
		level WARN
	}
	moderation {
		storage badger %[3]q
		demo off
		tier load 0 0
		feedback {
			max_records_per_day 0
			max_bytes_per_day 0
		}%[6]s
		account api {
			tier load
			key {env.CRASH_KEY}
		}
		account guard {
			tier load
		}
		account enforced {
			tier load
		}
	}
}

http://%[4]s {
	handle /guarded {
		moderate {
			account guard
		}
		respond "thanks"
	}
	handle /enforced {
		moderate {
			account enforced
			enforce_quota
			on_error reject
		}
		respond "thanks"
	}
	moderation_api
}

http://%[5]s {
	respond "ok"
}
`, w.admin, w.host, dir, w.site, w.other, review)
}

// start starts the server and returns when it accepts connections.
func (w *world) start(ctx context.Context) error {
	return w.startWith(ctx, w.caddy, w.other)
}

// launch starts the server without waiting.
func (w *world) launch(ctx context.Context) error {
	return w.startWith(ctx, w.caddy, "")
}

func (w *world) startWith(ctx context.Context, caddy, listen string) error {
	config := filepath.Join(w.folder, "Caddyfile")
	if err := os.WriteFile(config, []byte(w.caddyfile(w.dir)), 0o600); err != nil {
		return err
	}
	o := server.Options{
		Command: []string{caddy, "run", "--config", config, "--adapter", "caddyfile"},
		Env: append(w.env, "CRASH_KEY="+w.secret, "CRASH_REVIEW_KEY="+w.reviewSecret,
			"XDG_DATA_HOME="+w.folder, "XDG_CONFIG_HOME="+w.folder),
		Listen:  listen,
		Timeout: timeout,
	}
	o.Command = append(slices.Clone(w.wrap), o.Command...)
	supervised := make(chan error, 1)
	if w.supervisor != nil {
		command, err := w.supervisor.Wrap(o.Command)
		if err != nil {
			return err
		}
		o.Command, o.Files = command, []*os.File{w.supervisor.File()}
		s := w.supervisor
		w.supervisor = nil // each is for one server
		go func() { supervised <- s.Run() }()
	}
	process, err := server.Start(ctx, o)
	if err != nil {
		select {
		case failed := <-supervised:
			if failed != nil {
				return failed
			}
		default:
		}
		w.log.WriteString(err.Error())
		return err
	}
	w.process = process
	if listen == "" {
		return nil
	}
	if err := w.active(process); err != nil {
		w.log.WriteString(err.Error())
		return err
	}
	w.up.Store(true)
	watching, stop := context.WithCancel(ctx)
	w.watch = stop
	go w.watchOther(watching)
	go w.watchProcess(watching, process)
	return nil
}

// active waits until the configuration is running, which is somewhat later than the first connection.
func (w *world) active(p *server.Process) error {
	for deadline := time.Now().Add(timeout); ; time.Sleep(5 * time.Millisecond) {
		status, answer, err := w.do(http.MethodGet, "http://"+w.admin+"/moderation/health/ready", "", "", nil)
		if err == nil && (status == 200 || !bytes.Contains(answer, []byte("still starting"))) {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("the server ended and wrote:\n%s", p.Output())
		default:
		}
		if time.Now().After(deadline) {
			return errors.New("the server does not get its configuration running: " + brief(status, answer, err))
		}
	}
}

// watchOther requests the site that needs no store again and again.
func (w *world) watchOther(ctx context.Context) {
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		before, reloading := w.up.Load(), w.reloads()
		status, answer, err := get(client, "http://"+w.other+"/")
		if err != nil && (reloading || w.reloads()) {
			status, answer, err = get(client, "http://"+w.other+"/")
		}
		if before && w.up.Load() && ctx.Err() == nil && (err != nil || status != 200 || string(answer) != "ok") {
			w.violate("the other site does not answer: %s", brief(status, answer, err))
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// reloads reports whether connections may break because the configuration is being replaced, or was a moment ago: the
// old one ends its connections after the new one is said to run.
func (w *world) reloads() bool {
	return w.reloading.Load() || time.Since(time.Unix(0, w.reloaded.Load())) < time.Second
}

// watchProcess notices when the server ends by itself.
func (w *world) watchProcess(ctx context.Context, p *server.Process) {
	select {
	case <-ctx.Done():
	case <-p.Done():
		if w.up.Swap(false) {
			w.violate("the server died by itself: %s", lastError(p.Output()))
		}
	}
}

// lastError returns the line of a log that says why a program ended.
func lastError(log string) string {
	last := ""
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		for _, word := range []string{"panic:", "fatal error:", "SIGBUS", "unexpected fault", "Assert failed"} {
			if strings.Contains(line, word) && !strings.HasPrefix(line, "{") {
				return cut(line, 200)
			}
		}
		if line != "" {
			last = line
		}
	}
	return cut(last, 200)
}

func cut(text string, n int) string {
	if len(text) > n {
		return text[:n] + " ..."
	}
	return text
}

// unwatch stops the watchers before the server is ended.
func (w *world) unwatch() {
	w.up.Store(false)
	if w.watch != nil {
		w.watch()
		w.watch = nil
	}
}

// kill kills the server's processes: all of them, or that of the server only.
func (w *world) kill(all bool) {
	if w.process == nil {
		return
	}
	w.unwatch()
	children := descendants(w.process.PID())
	if all {
		for _, pid := range children {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	w.process.Kill()
	w.reap(children)
}

// stop shuts the server down in an orderly way.
func (w *world) stop() error {
	if w.process == nil {
		return nil
	}
	w.noteExcused()
	w.unwatch()
	children := descendants(w.process.PID())
	err := w.process.Stop()
	w.reap(children)
	return err
}

// end kills the server and all that it has started.
func (w *world) end() { w.kill(true) }

// reap keeps the log of a server that has ended, and checks that the processes that it started end as well.
func (w *world) reap(children []int) {
	output := w.process.Output()
	w.log.WriteString(output)
	// Lines of the admin endpoint do not count: Caddy writes one for each refused request.
	if n := strings.Count(output, "\n") - strings.Count(output, `"logger":"admin.api"`); n > fewLines &&
		!strings.Contains(output, "goroutine ") {
		w.violate("%d lines were logged for %d refused requests", n, w.refused.Load())
	}
	w.process = nil
	deadline := time.Now().Add(timeout)
	for _, pid := range children {
		for alive(pid) {
			if time.Now().After(deadline) {
				w.violate("the process %s outlives the server", commandName(pid))
				_ = unix.Kill(pid, unix.SIGKILL)
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// child returns the process of the store, 0 if the server has none.
func (w *world) child() int {
	for _, pid := range descendants(w.process.PID()) {
		return pid
	}
	return 0
}

// descendants returns the processes that a process has started, and those that these have started.
func descendants(pid int) (all []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	parents := map[int]int{}
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		// proc(5): the second field is the name in parentheses, the fourth the parent.
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		fields := bytes.Fields(rest)
		if len(fields) < 2 {
			continue
		}
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		parents[child], _ = strconv.Atoi(string(fields[1]))
	}
	wanted := map[int]bool{pid: true}
	for again := true; again; {
		again = false
		for child, parent := range parents {
			if wanted[parent] && !wanted[child] {
				wanted[child], again = true, true
				all = append(all, child)
			}
		}
	}
	return all
}

// alive reports whether a process runs. It reaps one that has ended and was left to this process.
func alive(pid int) bool {
	_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return err == nil && !bytes.HasPrefix(rest, []byte("Z"))
}

func commandName(pid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(name))
}

// command runs a command of the server's program against the server, and returns its output.
func (w *world) command(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.caddy, append([]string{"moderation"}, args...)...)
	cmd.Env = append(os.Environ(), "CADDY_ADMIN="+w.admin)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if output := strings.TrimSpace(problems.String()); err != nil || strings.Contains(output, "left out") {
		return out.String(), fmt.Errorf("caddy moderation %s: %w: %s", args[0], errors.Join(err, errSaid),
			cut(output, 300))
	}
	return out.String(), nil
}

// errSaid says that the error output of a command follows.
var errSaid = errors.New("it said")

// configure loads the configuration, with the store in a directory, into the running server.
func (w *world) configure(dir string) error {
	w.reloading.Store(true)
	defer func() {
		w.reloaded.Store(time.Now().UnixNano())
		w.reloading.Store(false)
	}()
	status, answer, err := w.do(http.MethodPost, "http://"+w.admin+"/load", "", "text/caddyfile",
		[]byte(w.caddyfile(dir)), "Cache-Control", "must-revalidate")
	if err != nil || status != 200 {
		return errors.New("the configuration was not taken: " + brief(status, answer, err))
	}
	return nil
}

// ready returns what the server says about itself.
func (w *world) ready() (ready, storeUp bool, err error) {
	status, _, err := w.do(http.MethodGet, "http://"+w.admin+"/moderation/health/ready", "", "", nil)
	if err != nil {
		return false, false, err
	}
	up, err := w.metric("caddy_moderation_store_up")
	return status == 200, up == 1, err
}

// metric returns the sum of the values of the metrics whose lines begin with a text.
func (w *world) metric(begin string) (sum float64, err error) {
	status, answer, err := w.do(http.MethodGet, "http://"+w.admin+"/metrics", "", "", nil)
	if err != nil || status != 200 {
		return 0, errors.New("the metrics are not told: " + brief(status, answer, err))
	}
	for line := range strings.Lines(string(answer)) {
		if !strings.HasPrefix(line, begin) {
			continue
		}
		fields := strings.Fields(line)
		n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// noteExcused notes how many messages the guard let pass although it could not count them, as it is configured to do.
func (w *world) noteExcused() {
	if w.process == nil || !w.up.Load() {
		return
	}
	n, err := w.metric(`caddy_moderation_guard_errors_total{direction="request",reason="account"}`)
	if err != nil {
		return
	}
	w.ledger.with(func() { w.ledger.of(guardAccount).Excused += int64(n) })
}

// alarmed waits until the server says that it cannot keep things.
func (w *world) alarmed(ctx context.Context, why string) {
	ready, up := false, false
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline) && ctx.Err() == nil && w.up.Load(); {
		var err error
		if ready, up, err = w.ready(); err == nil && !ready && !up {
			return
		}
		pause(ctx, 50*time.Millisecond)
	}
	if w.up.Load() {
		w.violate("%s: after %s the server says: ready %t, store_up %t", why, timeout, ready, up)
	}
}

// recovered waits until the server keeps things again, and reports whether it does.
func (w *world) recovered(ctx context.Context, why string) bool {
	before := w.answers.Load()
	ready, up := false, false
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline) && ctx.Err() == nil && w.up.Load(); {
		var err error
		if ready, up, err = w.ready(); err == nil && ready && up && w.answers.Load() > before {
			return true
		}
		pause(ctx, 50*time.Millisecond)
	}
	if w.up.Load() {
		w.violate("%s: %s after the cause has gone the server says: ready %t, store_up %t, "+
			"and %d requests were answered", why, timeout, ready, up, w.answers.Load()-before)
	}
	return false
}

// do sends a request with a client of its own and reads the answer.
func (w *world) do(method, url, secret, contentType string, body []byte, headers ...string) (int, []byte, error) {
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	return send(client, method, url, secret, contentType, body, headers...)
}

func get(client *http.Client, url string) (int, []byte, error) {
	return send(client, http.MethodGet, url, "", "", nil)
}

func send(
	client *http.Client, method, url, secret, contentType string, body []byte, headers ...string,
) (int, []byte, error) {
	r, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}

// brief returns a short text about the result of a request.
func brief(status int, answer []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", status, cut(strings.TrimSpace(string(answer)), 200))
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// fetch asks the running server for everything that it has stored.
func (w *world) fetch(ctx context.Context) (*stored, error) {
	s := &stored{usage: map[string]usage{}, keys: map[string]key{}, accounts: map[string]account{},
		errs: map[string]string{}}
	ask := func(what, path string, into any) {
		status, answer, err := w.do(http.MethodGet, "http://"+w.admin+path, "", "", nil)
		if err == nil && status == 200 {
			err = json.Unmarshal(answer, into)
		}
		if err != nil || status != 200 {
			s.errs[what] = brief(status, answer, err)
		}
	}
	for _, id := range []string{apiAccount, guardAccount, enforcedAccount} {
		for minute := int64(0); minute != w.ledger.minute(); {
			minute = w.ledger.minute()
			var u usage
			ask("usage "+id, "/moderation/usage/"+id, &u)
			if s.errs["usage "+id] == "" {
				s.usage[id] = u
			}
		}
	}
	var keys []key
	ask("keys", "/moderation/keys", &keys)
	for _, k := range keys {
		s.keys[k.ID] = k
	}
	var accounts []account
	ask("accounts", "/moderation/accounts", &accounts)
	for _, a := range accounts {
		s.accounts[a.ID] = a
	}
	out, err := w.command(ctx, "feedback", "export")
	if err != nil {
		s.errs["feedback"] = err.Error()
	}
	for line := range strings.Lines(out) {
		var r record
		if json.Unmarshal([]byte(line), &r) == nil {
			s.feedback = append(s.feedback, r)
		}
	}
	return s, nil
}

// compare starts the server, if it does not run, and compares what it has stored with the ledger.
func (w *world) compare(ctx context.Context) error {
	all := w.ledger.clone()
	return w.compareWith(ctx, all, all)
}

// compareWith wants everything that was acknowledged in before, and nothing that was not sent in after.
func (w *world) compareWith(ctx context.Context, before, after *ledger) error {
	if w.process == nil {
		if err := w.start(ctx); err != nil {
			return fmt.Errorf("it does not start again: %w", err)
		}
	}
	s, err := w.fetch(ctx)
	if err != nil {
		return err
	}
	for _, what := range slices.Sorted(func(yield func(string) bool) {
		for what := range s.errs {
			if !yield(what) {
				return
			}
		}
	}) {
		w.violate("%s cannot be told: %s", what, s.errs[what])
	}
	for _, d := range differences(before, after, s) {
		w.violate("%s", d)
	}
	if !w.stuck {
		w.tryKeys(before, after)
	}
	return nil
}

// tryKeys uses keys: the list of keys is one thing, who is let in is another.
func (w *world) tryKeys(before, after *ledger) {
	tried := 0
	for id, k := range after.keys {
		if tried++; tried > 20 {
			return
		}
		status, answer, err := w.do(http.MethodGet, "http://"+w.site+"/v1/usage", k.Secret, "", nil)
		first := before.keys[id]
		switch {
		case err != nil || status != 200 && status != 401:
			w.violate("a key cannot be used: %s", brief(status, answer, err))
			return
		case status == 401 && k.Sent < changed && first != nil && first.Acked >= present:
			w.violate("a key is refused that was acknowledged and never revoked")
		case status == 200 && first != nil && first.Acked >= changed:
			w.violate("a key is taken whose revocation was acknowledged")
		}
	}
}

// sampling samples the counts again and again.
func (w *world) sampling(ctx context.Context) {
	for ctx.Err() == nil {
		s := sample{time.Now(), w.answers.Load(), w.ledger.cloneCounts()}
		w.mu.Lock()
		w.samples = append(w.samples, s)
		w.mu.Unlock()
		pause(ctx, 200*time.Millisecond)
	}
}

// countsBefore returns the counts as they were before the last answers: those of the last d in which answers came.
// While the store holds answers back, none come, and that time does not count: what was answered last stays at risk
// until the store has synced it.
func (w *world) countsBefore(d time.Duration) map[string]*counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := len(w.samples) - 1
	for ; i > 0 && d > 0; i-- {
		if w.samples[i].answers > w.samples[i-1].answers {
			d -= w.samples[i].at.Sub(w.samples[i-1].at)
		}
	}
	if i < 0 {
		return map[string]*counts{}
	}
	return w.samples[i].counts
}

// limitFiles sets how many descriptors a process may have open, and returns the former limit.
func limitFiles(pid int, soft uint64) (uint64, error) {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		return 0, err
	}
	return old.Cur, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: soft, Max: old.Max}, nil)
}

// supervise has decide called for system calls of the next server.
func (w *world) supervise(calls []string, decide faults.Decide) error {
	s, err := faults.New(calls, decide)
	if err != nil {
		return err
	}
	w.supervisor = s
	return nil
}

// refusedConnection reports whether an error says that nobody can have read the request.
func refusedConnection(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
