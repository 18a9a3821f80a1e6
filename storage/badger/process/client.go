// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// Client is a [disk.Database] in a process of its own. It is safe for concurrent use. [Client.Close] or
// [Client.Abandon] must be called.
//
// Errors are those of [disk.DB]. When the process ends by itself they wrap [ErrEnded], after Close and Abandon
// [disk.ErrClosed]. The records that one call returned share memory.
type Client struct {
	logger       *zap.Logger
	identity     disk.Identity
	closeTimeout time.Duration
	close        func() error

	cmd *exec.Cmd
	// stdin, stdout and stderr are the server's ends of the pipes to the process.
	stdin, stdout, stderr *os.File
	to                    sender

	stderrTail stderrTail
	// stderrDone is closed when everything that the process wrote to its standard error output is read, exited when
	// the process has ended, and done when no call succeeds any more.
	stderrDone, exited, done chan struct{}
	lines                    chan line
	missed                   atomic.Int64

	// Each kind of request has its own limit, so that none waits for another kind.
	reads, writes, syncs chan struct{}
	calls                sync.Pool

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]*call
	closing bool
	err     error
}

// call is a request that waits for its answer.
type call struct {
	request message
	body    []byte
	kind    kind
	err     error
	// ready receives one value when the answer has come.
	ready chan struct{}
}

// Start starts the process and opens the database in it. There is no limit to how long opening takes but ctx. Errors
// are those of [disk.Open], and [ErrStart] if the process cannot be started.
func Start(ctx context.Context, o disk.Options) (*Client, error) {
	return launcher{}.start(ctx, o)
}

// launcher starts a process.
type launcher struct {
	spare *SpareDescriptors
	// name is the name of the process. Default: name.
	name string
	// closeTimeout is how long closing may take. Default: 30 s.
	closeTimeout time.Duration
}

func (l launcher) start(ctx context.Context, o disk.Options) (*Client, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	o.Dir = dir
	if l.name == "" {
		l.name = name
	}
	if l.closeTimeout <= 0 {
		l.closeTimeout = 30 * time.Second
	}
	c := &Client{
		logger:       o.Logger,
		closeTimeout: l.closeTimeout,
		stderrDone:   make(chan struct{}),
		exited:       make(chan struct{}),
		done:         make(chan struct{}),
		lines:        make(chan line, 64),
		reads:        make(chan struct{}, maxReads),
		writes:       make(chan struct{}, maxWrites),
		syncs:        make(chan struct{}, maxSyncs),
		waiting:      make(map[uint64]*call),
	}
	if c.logger == nil {
		c.logger = zap.NewNop()
	}
	c.logger = c.logger.WithOptions(zap.WithCaller(false))
	c.close = sync.OnceValue(c.shut)
	c.calls.New = func() any { return &call{ready: make(chan struct{}, 1)} }

	// The logger stays here: the process sends its lines as messages.
	o.Logger = nil
	request, err := json.Marshal(openRequest{Protocol: protocol, Options: o, Level: int8(c.logger.Level())})
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := l.spare.releaseFor(func() error { return c.execute(l.name, dir) }); err != nil {
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			return nil, fmt.Errorf("%w: no file descriptors are left: %w", ErrStart, err)
		}
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	go c.listen()
	go c.log()
	if err := c.begin(ctx, request); err != nil {
		return nil, err
	}
	return c, nil
}

// begin asks the process to open the database.
func (c *Client) begin(ctx context.Context, request []byte) error {
	stop := context.AfterFunc(ctx, func() { c.abandon(context.Cause(ctx)) })
	a, err := c.do(nil, &message{kind: kindOpen, raw: request}, kindOpened)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil && len(a.raw) != len(c.identity) {
		err = fmt.Errorf("%w: %w", ErrEnded, errFrame)
	}
	if err != nil {
		c.abandon(disk.ErrClosed)
		// Unless the process hangs, the directory is free when this returns.
		c.await(time.Second)
		return err
	}
	copy(c.identity[:], a.raw)
	return nil
}

// execute starts the process.
func (c *Client) execute(name, dir string) (err error) {
	path, err := executable()
	if err != nil {
		return err
	}
	// The first of each pair is for reading.
	var pipes [3][2]*os.File
	closeAll := func(end int) {
		for _, p := range pipes {
			if p[end] != nil {
				_ = p[end].Close()
			}
		}
	}
	for i := range pipes {
		if pipes[i][0], pipes[i][1], err = os.Pipe(); err != nil {
			closeAll(0)
			closeAll(1)
			return err
		}
	}
	stdin, stdout, stderr := pipes[0], pipes[1], pipes[2]
	c.cmd = &exec.Cmd{Path: path, Args: []string{name, dir}, Env: environment(os.Environ())}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = stdin[0], stdout[1], stderr[1]
	detach(c.cmd)
	if err := c.cmd.Start(); err != nil {
		closeAll(0)
		closeAll(1)
		return err
	}
	// These are the child's ends. While they are open here, the end of the child would go unnoticed.
	_, _, _ = stdin[0].Close(), stdout[1].Close(), stderr[1].Close()
	c.stdin, c.stdout, c.stderr = stdin[1], stdout[0], stderr[0]
	c.to.w = c.stdin

	go func() {
		_, _ = io.Copy(&c.stderrTail, c.stderr)
		close(c.stderrDone)
	}()
	go func() {
		_ = c.cmd.Wait()
		close(c.exited)
	}()
	return nil
}

// executable returns the running executable. On Linux that is the file that was started, even if another one has its
// name by now.
func executable() (string, error) {
	const self = "/proc/self/exe"
	if runtime.GOOS == "linux" {
		if _, err := os.Stat(self); err == nil {
			return self, nil
		}
	}
	return os.Executable()
}

// environment returns the part of the environment that the process needs: the variables of the Go runtime and of the
// system's loader. Those that set limits for the server's memory are not for the process.
func environment(all []string) []string {
	var kept []string
	for _, e := range all {
		key, _, _ := strings.Cut(e, "=")
		switch key {
		case "GODEBUG", "GOTRACEBACK", "GOMAXPROCS", "GORACE", "GOCOVERDIR":
			kept = append(kept, e)
		default:
			if strings.HasPrefix(key, "LD_") || strings.HasPrefix(key, "DYLD_") {
				kept = append(kept, e)
			}
		}
	}
	return kept
}

// listen hands answers to the calls that wait for them, until there are no more.
func (c *Client) listen() {
	defer close(c.lines)
	err := c.answers(bufio.NewReaderSize(c.stdout, 64<<10))

	// Whatever the error is, the process is of no use any more.
	_ = c.cmd.Process.Kill()
	c.await(time.Second)
	c.mu.Lock()
	expected := c.err != nil
	c.mu.Unlock()
	if !expected {
		ended := fmt.Errorf("%w: %s", ErrEnded, c.reason(err))
		if c.finish(ended) {
			c.logger.Error("the database's process ended by itself",
				zap.Error(ended), zap.String("output", c.stderrTail.all()))
		}
	}
	c.release()
}

func (c *Client) answers(r *bufio.Reader) error {
	var m message
	for {
		body, err := m.receive(r)
		if err != nil {
			return err
		}
		switch m.kind {
		case kindOpened, kindRecords, kindDone, kindFailed:
		case kindLog:
			c.forwardLog(body)
			continue
		default:
			return unexpected(&m)
		}
		c.mu.Lock()
		w := c.waiting[m.number]
		delete(c.waiting, m.number)
		finished := c.err != nil
		c.mu.Unlock()
		if w == nil {
			if finished {
				return io.EOF
			}
			return fmt.Errorf("%w: an answer to no request", errFrame)
		}
		last := w.request.kind == kindClose
		w.kind, w.body = m.kind, body
		w.ready <- struct{}{}
		if last {
			// The process ends when its input does.
			c.finish(disk.ErrClosed)
			_ = c.stdin.Close()
		}
	}
}

// reason returns why the process ended.
func (c *Client) reason(err error) string {
	var parts []string
	select {
	case <-c.exited:
		parts = append(parts, c.cmd.ProcessState.String())
	default:
		parts = append(parts, "it does not react")
	}
	if !errors.Is(err, io.EOF) {
		// This is why it was killed.
		parts = []string{err.Error()}
	}
	if brief := c.stderrTail.brief(); brief != "" {
		parts = append(parts, brief)
	}
	return strings.Join(parts, ": ")
}

// await waits until the process has ended and its error output is read, but not longer than limit.
func (c *Client) await(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for _, event := range []chan struct{}{c.exited, c.stderrDone} {
		select {
		case <-event:
		case <-timer.C:
			return
		}
	}
}

// forwardLog passes a line on to the log. A log that takes no lines does not hold up answers.
func (c *Client) forwardLog(body []byte) {
	var l line
	if err := json.Unmarshal(body, &l); err != nil {
		return
	}
	select {
	case c.lines <- l:
	default:
		c.missed.Add(1)
	}
}

func (c *Client) log() {
	for l := range c.lines {
		l.log(c.logger)
		if n := c.missed.Swap(0); n > 0 {
			c.logger.Warn("lines of the database's log are missing", zap.Int64("lines", n))
		}
	}
}

// finish makes every call fail, present and future ones. It reports whether it was the first to do so.
func (c *Client) finish(err error) bool {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return false
	}
	c.err = err
	waiting := c.waiting
	c.waiting = nil
	close(c.done)
	c.mu.Unlock()
	for _, w := range waiting {
		w.err = err
		w.ready <- struct{}{}
	}
	return true
}

// release closes the descriptors.
func (c *Client) release() {
	_, _, _ = c.stdin.Close(), c.stdout.Close(), c.stderr.Close()
}

// do sends a request and waits for the answer.
func (c *Client) do(slots chan struct{}, request *message, want kind) (message, error) {
	if slots != nil {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-c.done:
			return message{}, c.Err()
		}
	}
	w := c.calls.Get().(*call)
	w.request = *request
	if err := c.register(w); err != nil {
		return message{}, err
	}
	if err := c.to.send(&w.request); err != nil {
		if errors.Is(err, errTooLarge) {
			c.mu.Lock()
			delete(c.waiting, w.request.number)
			c.mu.Unlock()
			return message{}, err
		}
		// The process takes no requests any more. Its end is the answer.
		_ = c.cmd.Process.Kill()
	}
	<-w.ready
	return c.takeAnswer(w, want)
}

// register gives a request its number.
func (c *Client) register(w *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if c.closing && w.request.kind != kindClose {
		return disk.ErrClosed
	}
	c.last++
	w.request.number = c.last
	c.waiting[c.last] = w
	return nil
}

// takeAnswer parses the answer, and takes the call back for reuse.
func (c *Client) takeAnswer(w *call, want kind) (message, error) {
	m, body, err := message{kind: w.kind}, w.body, w.err
	*w = call{ready: w.ready}
	c.calls.Put(w)
	if err != nil {
		return message{}, err
	}
	if err := m.parse(body); err != nil || m.kind != want && m.kind != kindFailed {
		return message{}, c.broken()
	}
	if m.kind == kindFailed {
		return message{}, m.failure
	}
	return m, nil
}

// broken kills a process whose answers make no sense.
func (c *Client) broken() error {
	err := fmt.Errorf("%w: %w", ErrEnded, errFrame)
	c.abandon(err)
	return err
}

// Get implements [disk.Database].
func (c *Client) Get(keys ...[]byte) ([]disk.Record, error) {
	a, err := c.do(c.reads, &message{kind: kindGet, keys: keys}, kindRecords)
	if err == nil && len(a.records) != len(keys) {
		return nil, c.broken()
	}
	return a.records, err
}

// Scan implements [disk.Database].
func (c *Client) Scan(r disk.Range) (records []disk.Record, next []byte, err error) {
	a, err := c.do(c.reads, &message{kind: kindScan, scan: r}, kindRecords)
	return a.records, a.next, err
}

// Write implements [disk.Database]. Consecutive calls are made in their order.
func (c *Client) Write(entries []disk.Entry) error {
	_, err := c.do(c.writes, &message{kind: kindWrite, entries: entries}, kindDone)
	return err
}

// Sync implements [disk.Database].
func (c *Client) Sync() error {
	_, err := c.do(c.syncs, &message{kind: kindSync}, kindDone)
	return err
}

// Check implements [disk.Database].
func (c *Client) Check() error {
	_, err := c.do(c.syncs, &message{kind: kindCheck}, kindDone)
	return err
}

// Snapshot implements [disk.Database]. At most 16 can be open at a time.
func (c *Client) Snapshot() (disk.Snapshot, error) {
	a, err := c.do(c.reads, &message{kind: kindSnapshot}, kindDone)
	if err != nil {
		return nil, err
	}
	return &snapshot{c: c, id: a.id}, nil
}

// Identity implements [disk.Database].
func (c *Client) Identity() disk.Identity { return c.identity }

// Close closes the database and waits for the end of the process. If that takes more than half a minute, it kills the
// process and returns an error: then everything that was written is in the database's log, but perhaps not on the
// disk. Close may be called more than once.
func (c *Client) Close() error { return c.close() }

func (c *Client) shut() error {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	late := fmt.Errorf("%w: it took more than %v to close, and its process was killed", disk.ErrClosed, c.closeTimeout)
	timer := time.AfterFunc(c.closeTimeout, func() { c.abandon(late) })
	defer timer.Stop()
	if _, err := c.do(nil, &message{kind: kindClose}, kindDone); err != nil {
		return err
	}
	// It only has to end now.
	select {
	case <-c.exited:
		return nil
	case <-time.After(c.closeTimeout):
		_ = c.cmd.Process.Kill()
		return late
	}
}

// Abandon kills the process. Calls that wait fail at once, even if the process does not react.
func (c *Client) Abandon() {
	c.abandon(fmt.Errorf("%w: it was given up", disk.ErrClosed))
}

func (c *Client) abandon(err error) {
	c.finish(err)
	_ = c.cmd.Process.Kill()
	// Wake goroutines that read or write. The process is reaped in the background.
	c.release()
}

// Done is closed when no call succeeds any more: the process has ended by itself, or the client was closed or
// abandoned. [Client.Err] tells which.
func (c *Client) Done() <-chan struct{} { return c.done }

// Released is closed when the process has ended, and its lock on the directory with it. That can be later than Done,
// and never, if the system cannot get the process away from a disk that hangs.
func (c *Client) Released() <-chan struct{} { return c.exited }

// Err returns nil until Done is closed, and then the error of all calls. It wraps [ErrEnded] if the process ended by
// itself.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// snapshot is a [disk.Snapshot] in the process.
type snapshot struct {
	c  *Client
	id uint64
}

// Next implements [disk.Snapshot].
func (s *snapshot) Next() ([]disk.Record, error) {
	a, err := s.c.do(s.c.reads, &message{kind: kindNext, id: s.id}, kindRecords)
	return a.records, err
}

// Close implements [disk.Snapshot].
func (s *snapshot) Close() error {
	_, err := s.c.do(s.c.reads, &message{kind: kindEnd, id: s.id}, kindDone)
	if err != nil && s.c.Err() != nil {
		// The snapshot ended with the process.
		return nil
	}
	return err
}
