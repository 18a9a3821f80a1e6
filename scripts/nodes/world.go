// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/server"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// Topologies of the store.
const (
	standalone = "standalone"
	sentinel   = "sentinel"
	cluster    = "cluster"
)

// The accounts of the clients, which all nodes declare. keysAccount is stored.
const (
	apiAccount    = "api"    // unlimited
	guardAccount  = "guard"  // unlimited, of a guard
	minuteAccount = "minute" // perMinute a minute
	monthAccount  = "month"  // perMonth a month
	keysAccount   = "keys"   // stored, unlimited
)

// The limits of the accounts above.
const (
	perMinute = 60
	perMonth  = 150
)

// setup says what a round needs.
type setup struct {
	topology string // default: standalone
	nodes    int    // default: 3
	// server are the options of the store's servers.
	server redistest.Options
	// proxied gives each node a proxy before the store; for standalone only.
	proxied bool
	outage  string
	// lines are more lines of the storage.
	lines []string
	// skew is how far the clock of each node is ahead; it needs a server that was built for that.
	skew []time.Duration
	// nodeTimeout is after which time the others take a server for dead, in a cluster or with sentinels.
	nodeTimeout time.Duration
}

// world is what one round has for itself: a store, nodes, clients and their ledger.
type world struct {
	name   string
	rig    *rig
	folder string
	setup  setup
	secret string // of all declared accounts, followed by their names
	nodes  []*node
	ledger *ledger
	random *rand.Rand

	single   *redistest.Server
	sentinel *redistest.Sentinel
	cluster  *redistest.Cluster

	// lossy says that keys may be lost.
	lossy bool

	load    context.CancelFunc
	clients sync.WaitGroup
	answers atomic.Int64

	mu         sync.Mutex
	violations []string
	notes      []string
	undo       []func()
}

// node is one server.
type node struct {
	n                  int
	world              *world
	host               *redistest.Host
	folder             string
	site, other, admin string
	adminClient        *http.Client
	caddy              string
	env                []string
	proxy              *redistest.Proxy
	log                strings.Builder // of the processes that have ended

	process *server.Process
	// up says that the node must answer, at least on the site that needs no store.
	up        atomic.Bool
	reloading atomic.Bool
	watch     context.CancelFunc
	// prefix replaces the prefix of names in the store.
	prefix string
	// badger has the node keep everything in a directory of its own, as a node that is alone does.
	badger bool
}

func newWorld(r *rig, name string, seed uint64) (*world, error) {
	folder, err := os.MkdirTemp("", "caddy-moderation-nodes-")
	if err != nil {
		return nil, err
	}
	w := &world{name: name, rig: r, folder: folder, ledger: newLedger(), random: rand.New(rand.NewPCG(seed, 0))}
	w.secret = "mod_sk_" + w.letters(24)
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

// secretOf returns the key of a declared account.
func (w *world) secretOf(account string) string {
	return w.secret + (account + "xxxxxxxx")[:8]
}

// violate notes that a promise was broken.
func (w *world) violate(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if len(text) > 700 {
		text = "... " + text[len(text)-700:]
	}
	if len(w.violations) < 20 && !slices.Contains(w.violations, text) {
		w.violations = append(w.violations, text)
	}
}

func (w *world) broken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.violations)
}

// note adds something to the line about the round.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// atEnd registers a function to be called when the round is over, the last one first.
func (w *world) atEnd(f func()) { w.undo = append(w.undo, f) }

// close ends everything.
func (w *world) close() {
	w.rest()
	for _, n := range w.nodes {
		n.kill()
		n.host.Release()
	}
	if len(w.broken()) > 0 {
		w.keepLogs()
	}
	for _, f := range slices.Backward(w.undo) {
		f()
	}
	w.undo = nil
}

// servers returns the servers of the store.
func (w *world) servers() (all []*redistest.Server) {
	switch {
	case w.cluster != nil:
		return w.cluster.Nodes
	case w.sentinel != nil:
		return slices.Concat(w.sentinel.Servers, w.sentinel.Sentinels)
	case w.single != nil:
		return []*redistest.Server{w.single}
	}
	return nil
}

// keepLogs writes the logs of the store's servers to the world's folder.
func (w *world) keepLogs() {
	for i, s := range w.servers() {
		name := filepath.Join(w.folder, fmt.Sprintf("store%d-%d.log", i, s.Port()))
		_ = os.WriteFile(name, []byte(s.Log()), 0o600)
	}
}

// store starts the store.
func (w *world) store(s setup) error {
	w.setup = s
	var err error
	switch s.topology {
	case cluster:
		w.cluster, err = redistest.StartCluster(redistest.ClusterOptions{Options: s.server, NodeTimeout: s.nodeTimeout})
		if err == nil {
			w.atEnd(w.cluster.Stop)
		}
	case sentinel:
		w.sentinel, err = redistest.StartSentinel(
			redistest.SentinelOptions{Options: s.server, DownAfter: s.nodeTimeout})
		if err == nil {
			w.atEnd(w.sentinel.Stop)
		}
	default:
		w.single, err = redistest.Start(s.server)
		if err == nil {
			w.atEnd(w.single.Stop)
		}
	}
	if err != nil {
		return err
	}
	count := s.nodes
	if count == 0 {
		count = 3
	}
	for i := range count {
		if err := w.add(i); err != nil {
			return err
		}
	}
	return nil
}

// add adds a node, which is not started.
func (w *world) add(i int) error {
	host, err := redistest.NewHost()
	if err != nil {
		return err
	}
	n := &node{
		n: i, world: w, host: host, folder: filepath.Join(w.folder, fmt.Sprintf("node%d", i)),
		site: host.At(8080), other: host.At(8081), admin: host.At(2019), adminClient: newClient(4), caddy: w.rig.caddy,
	}
	w.nodes = append(w.nodes, n)
	if w.setup.proxied {
		if n.proxy, err = redistest.NewProxy(w.single.Addr()); err != nil {
			return err
		}
		w.atEnd(n.proxy.Stop)
	}
	if len(w.setup.skew) > i {
		n.caddy = w.rig.skewed
		n.env = append(n.env, skewVariable+"="+w.setup.skew[i].String())
	}
	return os.Mkdir(n.folder, 0o700)
}

// begin starts the store and all nodes.
func (w *world) begin(ctx context.Context, s setup) error {
	if err := w.store(s); err != nil {
		return err
	}
	return w.startNodes(ctx)
}

func (w *world) startNodes(ctx context.Context) error {
	errs := make([]error, len(w.nodes))
	var starting sync.WaitGroup
	for i, n := range w.nodes {
		starting.Go(func() { errs[i] = n.start(ctx) })
	}
	starting.Wait()
	return errors.Join(errs...)
}

// addresses returns the addresses of the store for a node.
func (n *node) addresses() []string {
	w := n.world
	switch {
	case n.proxy != nil:
		return []string{n.proxy.Addr()}
	case w.cluster != nil:
		return w.cluster.Addrs()
	case w.sentinel != nil:
		return w.sentinel.Addrs()
	}
	return []string{w.single.Addr()}
}

// storage returns the lines of the node's storage.
func (n *node) storage() (lines []string) {
	w := n.world
	lines = append(lines, "address "+strings.Join(n.addresses(), " "))
	switch {
	case w.cluster != nil:
		lines = append(lines, "cluster")
	case w.sentinel != nil:
		lines = append(lines, "sentinel "+redistest.MasterName)
	}
	if w.setup.outage != "" {
		lines = append(lines, "outage "+w.setup.outage)
	}
	if w.setup.server.Password != "" {
		lines = append(lines, "password {env.NODES_PASSWORD}")
	}
	if n.prefix != "" {
		lines = append(lines, "prefix "+n.prefix)
	}
	return append(lines, w.setup.lines...)
}

// caddyfile returns the configuration of the node.
func (n *node) caddyfile() string {
	var accounts strings.Builder
	for _, a := range []struct{ id, tier string }{
		{apiAccount, "load"}, {guardAccount, "load"}, {minuteAccount, "minute"}, {monthAccount, "month"},
	} {
		fmt.Fprintf(&accounts, "\t\taccount %s {\n\t\t\ttier %s\n\t\t\tkey sha256:%x\n\t\t}\n", a.id, a.tier,
			sha256.Sum256([]byte(n.world.secretOf(a.id))))
	}
	storage := "storage redis {\n\t\t\t" + strings.Join(n.storage(), "\n\t\t\t") + "\n\t\t}"
	if n.badger {
		storage = fmt.Sprintf("storage badger %q", filepath.Join(n.folder, "data"))
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
		%[3]s
		tier load 0 0
		tier minute 0 %[4]d
		tier month %[5]d 0
		feedback {
			max_records_per_day 0
			max_bytes_per_day 0
		}
%[6]s	}
}

http://%[7]s {
	handle /guarded {
		moderate {
			account guard
			on_error reject
		}
		respond "thanks"
	}
	moderation_api
}

http://%[8]s {
	handle /free {
		moderate
		respond "free"
	}
	respond "ok"
}
`, n.admin, n.host.IP, storage, perMinute, perMonth, accounts.String(), n.site, n.other)
}

// launch starts the node's process, and waits until it listens if listen is true.
func (n *node) launch(ctx context.Context, listen bool) error {
	config := filepath.Join(n.folder, "Caddyfile")
	if err := os.WriteFile(config, []byte(n.caddyfile()), 0o600); err != nil {
		return err
	}
	o := server.Options{
		Command: []string{n.caddy, "run", "--config", config, "--adapter", "caddyfile"},
		Env: append([]string{"NODES_PASSWORD=" + n.world.setup.server.Password, "XDG_DATA_HOME=" + n.folder,
			"XDG_CONFIG_HOME=" + n.folder}, n.env...),
		Timeout: timeout,
	}
	if listen {
		o.Listen = n.other
	}
	process, err := server.Start(ctx, o)
	if err != nil {
		n.log.WriteString(err.Error())
		return fmt.Errorf("node %d: %w", n.n, err)
	}
	n.process = process
	return nil
}

// start starts the node and returns when its configuration runs.
func (n *node) start(ctx context.Context) error {
	if err := n.launch(ctx, true); err != nil {
		return err
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(5 * time.Millisecond) {
		status, answer, err := n.administer(http.MethodGet, "/moderation/health/ready", "")
		if err == nil && (status == 200 || !strings.Contains(string(answer), "still starting")) {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("node %d does not get its configuration running: %s", n.n, brief(status, answer, err))
		}
	}
	n.up.Store(true)
	watching, stop := context.WithCancel(ctx)
	n.watch = stop
	go n.watchOther(watching)
	go n.watchProcess(watching, n.process)
	return nil
}

// watchOther requests what needs no store again and again: a plain page, and a guard that names no account.
func (n *node) watchOther(ctx context.Context) {
	client := newClient(1)
	defer client.CloseIdleConnections()
	for i := 0; ctx.Err() == nil; i++ {
		path, body := "/", ""
		want := "ok"
		if i%2 == 1 {
			path, body, want = "/free", "comment=What+a+lovely+day", "free"
		}
		before := n.up.Load()
		status, answer, err := n.plain(ctx, client, path, body)
		if err != nil && n.reloading.Load() {
			status, answer, err = n.plain(ctx, client, path, body)
		}
		if before && n.up.Load() && ctx.Err() == nil && (err != nil || status != 200 || string(answer) != want) {
			n.world.violate("what needs no store does not answer on node %d: %s", n.n, brief(status, answer, err))
		}
		pause(ctx, 50*time.Millisecond)
	}
}

func (n *node) plain(ctx context.Context, client *http.Client, path, body string) (int, []byte, error) {
	method, kind := http.MethodGet, ""
	if body != "" {
		method, kind = http.MethodPost, guardForm
	}
	status, _, answer, err := send(ctx, client, method, "http://"+n.other+path, "", kind, []byte(body))
	return status, answer, err
}

// watchProcess notices when the node ends by itself.
func (n *node) watchProcess(ctx context.Context, p *server.Process) {
	select {
	case <-ctx.Done():
	case <-p.Done():
		if n.up.Swap(false) {
			log := p.Output()
			n.world.violate("node %d died by itself: %s", n.n, log[max(0, len(log)-300):])
		}
	}
}

func (n *node) unwatch() {
	n.up.Store(false)
	if n.watch != nil {
		n.watch()
		n.watch = nil
	}
}

// kill kills the node (SIGKILL).
func (n *node) kill() {
	if n.process == nil {
		return
	}
	n.unwatch()
	n.process.Kill()
	n.ended()
}

// stop shuts the node down in an orderly way.
func (n *node) stop() error {
	if n.process == nil {
		return nil
	}
	n.unwatch()
	err := n.process.Stop()
	n.ended()
	return err
}

func (n *node) ended() {
	output := n.process.Output()
	n.log.WriteString(output)
	if i := strings.Index(output, "panic:"); i >= 0 {
		n.world.violate("node %d panics: %s", n.n, cut(output[i:], 300))
	}
	if strings.Contains(output, "DATA RACE") {
		n.world.violate("node %d has a data race", n.n)
	}
	lines := strings.Count(output, "\n") - strings.Count(output, `"logger":"admin.api"`)
	if lines > fewLines && !strings.Contains(output, "goroutine ") {
		n.world.violate("node %d logged %d lines", n.n, lines)
	}
	n.process = nil
	n.adminClient.CloseIdleConnections()
}

// fewLines is how many lines a node may log in a round, whatever happens to it and however many requests it refuses.
const fewLines = 300

// reload loads the node's configuration into the running server.
func (n *node) reload() error {
	// Caddy closes idle connections when it replaces the listeners, some of them a little later.
	n.reloading.Store(true)
	r, err := http.NewRequest(http.MethodPost, "http://"+n.admin+"/load", strings.NewReader(n.caddyfile()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "text/caddyfile")
	r.Header.Set("Cache-Control", "must-revalidate")
	client := newClient(1)
	defer client.CloseIdleConnections()
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != 200 {
		return fmt.Errorf("node %d does not take the configuration: %s", n.n, answer.Status)
	}
	return nil
}
