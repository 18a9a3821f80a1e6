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
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/faults"
	"github.com/caddy-moderation/caddy-moderation/scripts/internal/server"
)

// The addresses and paths that the page names.
const (
	site       = "http://localhost:8080"
	admin      = "http://localhost:2019"
	prometheus = "http://localhost:9090"
	library    = "/var/lib/caddy"
	data       = library + "/moderation"
	configFile = "/etc/caddy/Caddyfile"
)

// acmeKey is the key of the declared account acme.
const acmeKey = "mod_sk_runbookrunbookrunbookrunbook1234"

// patience is how long anything may take. CI machines are slow and busy: only what never happens is an error.
const patience = 90 * time.Second

// errSkip says why a scenario is skipped.
type errSkip string

func (e errSkip) Error() string { return string(e) }

// stage is where one scenario is played. After the first error its methods do nothing.
type stage struct {
	name    string
	folder  string
	caddy   string
	tools   string // the folder of Prometheus's programs; empty without
	entries []entry
	context context.Context
	err     error

	mu       sync.Mutex
	evidence strings.Builder

	process    *server.Process
	supervisor *faults.Supervisor
	env        []string
	urgent     bool // the server goes before the other programs of the machine
	undo       []func()
	looked     map[string]bool
}

// fail keeps the first error.
func (s *stage) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

func (s *stage) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil || s.context.Err() != nil
}

func (s *stage) skip(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = errSkip(fmt.Sprintf(format, args...))
	}
}

// must fails when err is not nil.
func (s *stage) must(err error) {
	if err != nil {
		s.fail("%w", err)
	}
}

// note adds to the evidence.
func (s *stage) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.evidence, format+"\n", args...)
}

// text returns the evidence, with the server's log.
func (s *stage) text() string {
	log, _ := os.ReadFile(s.log())
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.evidence.String() + "\n" + string(log)
}

func (s *stage) log() string { return filepath.Join(s.folder, "server.log") }

// furnish makes the directories that the page names, and the programs that are replaced.
func (s *stage) furnish() error {
	s.looked = map[string]bool{}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", "/var/lib", "tmpfs", 0, "size=512m"); err != nil {
		return err
	}
	etc, bin := filepath.Join(s.folder, "etc"), filepath.Join(s.folder, "bin")
	for _, dir := range []string{library, filepath.Join(etc, "caddy"), bin} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"passwd", "group", "hosts", "nsswitch.conf", "resolv.conf"} {
		if text, err := os.ReadFile(filepath.Join("/etc", name)); err == nil {
			if err := os.WriteFile(filepath.Join(etc, name), text, 0o644); err != nil {
				return err
			}
		}
	}
	if err := unix.Mount(etc, "/etc", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	// ps, dmesg and others of this machine would show its other processes and its kernel's log.
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	scripts := map[string]string{
		"journalctl": "exec cat " + s.log(),
		"systemctl":  `case "$1" in is-active|status|show) echo "ActiveState=active"; esac`,
	}
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink(s.caddy, filepath.Join(bin, "caddy")); err != nil {
		return err
	}
	for name, value := range map[string]string{
		"PATH": bin + ":" + os.Getenv("PATH"), "HOME": s.folder, "ACME_MODERATION_KEY": acmeKey,
		"XDG_DATA_HOME": filepath.Join(s.folder, "share"), "XDG_CONFIG_HOME": filepath.Join(s.folder, "config"),
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return exec.Command("ip", "link", "set", "lo", "up").Run()
}

// clear ends what runs, and undoes what was registered, the last first.
func (s *stage) clear() {
	s.kill()
	for _, f := range slices.Backward(s.undo) {
		f()
	}
}

// conclude wants the commands of all entries of this scenario to have been run.
func (s *stage) conclude() {
	for title, p := range provoked {
		if slices.Contains(p.by, s.name) && p.by[0] == s.name && !s.looked[title] && !s.failed() {
			s.fail("the scenario does not run the commands of the entry %q", title)
		}
	}
}

// disk makes a file system of its own for the store: one in a file if loop is set, else one in memory.
func (s *stage) disk(loop bool, megabytes int) {
	if s.failed() {
		return
	}
	if !loop {
		s.must(unix.Mount("tmpfs", library, "tmpfs", 0, fmt.Sprintf("size=%dm", megabytes)))
		return
	}
	image := filepath.Join(s.folder, "disk.img")
	s.must(os.WriteFile(image, nil, 0o600))
	s.must(os.Truncate(image, int64(megabytes)<<20))
	for _, command := range []string{
		"mkfs.ext4 -q -F " + image, "mount -o loop,errors=remount-ro " + image + " " + library,
	} {
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			s.skip("no file system in a file can be mounted here: %s", bytes.TrimSpace(out))
			return
		}
	}
	s.undo = append(s.undo, func() { _ = unix.Unmount(library, unix.MNT_DETACH) })
}

// config writes the configuration: options of the app, site blocks, and what else is global.
func (s *stage) config(global, app, sites string) {
	if s.failed() {
		return
	}
	s.must(os.WriteFile(configFile, []byte(fmt.Sprintf(`{
	persist_config off
	metrics
	%s
	moderation {
		storage badger %s
		demo off
		tier load 0 0
		tier free 1000 10
		account acme {
			tier load
			key {env.ACME_MODERATION_KEY}
		}
		%s
	}
}

http://localhost:8080 {
	handle /guarded {
		moderate {
			account acme
		}
		respond "thanks"
	}
	handle /strict {
		moderate {
			on_error reject
		}
		respond "thanks"
	}
	moderation_api {
		scoring_path perspective
	}
}

http://localhost:8081 {
	respond "ok"
}
%s
`, global, data, app, sites)), 0o600))
}

// supervise has decide called for system calls of the next server.
func (s *stage) supervise(calls []string, decide faults.Decide) {
	if s.failed() {
		return
	}
	supervisor, err := faults.New(calls, decide)
	if err == nil {
		probe, failed := faults.New([]string{"fsync"}, func(faults.Call) syscall.Errno { return 0 })
		err = errors.Join(failed, probe.Try())
	}
	if err != nil {
		s.skip("system calls cannot be supervised here: %v", err)
		return
	}
	s.supervisor = supervisor
}

// launch starts the server without waiting.
func (s *stage) launch() {
	if s.failed() {
		return
	}
	o := server.Options{
		Command: []string{"sh", "-c", `exec "$@" >>"$0" 2>&1`, s.log(),
			"caddy", "run", "--config", configFile, "--adapter", "caddyfile"},
		Env: s.env,
	}
	if s.urgent {
		o.Command = append([]string{"nice", "-n", "-15"}, o.Command...)
	}
	if s.supervisor != nil {
		command, err := s.supervisor.Wrap(o.Command)
		if err != nil {
			s.fail("%w", err)
			return
		}
		o.Command, o.Files = command, []*os.File{s.supervisor.File()}
		supervisor := s.supervisor
		s.supervisor = nil
		go func() {
			if err := supervisor.Run(); err != nil {
				s.skip("%v", err)
			}
		}()
	}
	process, err := server.Start(context.WithoutCancel(s.context), o)
	if err != nil {
		s.fail("%w", err)
		return
	}
	s.process = process
}

// start starts the server and waits until its configuration runs.
func (s *stage) start() {
	s.launch()
	s.until("the server runs", func() bool {
		select {
		case <-s.process.Done():
			s.fail("the server has ended")
		default:
		}
		_, body := s.get(admin + "/moderation/health/ready")
		return body != "" && !strings.Contains(body, "still starting")
	})
}

// startFails starts the server and waits until it has ended by itself.
func (s *stage) startFails() {
	s.launch()
	s.until("the server refuses to start", func() bool {
		select {
		case <-s.process.Done():
			return true
		default:
			return false
		}
	})
}

// stop ends the server in an orderly way.
func (s *stage) stop() {
	if !s.failed() {
		s.must(s.process.Stop())
	}
}

// kill kills the server and the process of its store.
func (s *stage) kill() {
	if s.process == nil {
		return
	}
	child := s.child()
	s.process.Kill()
	if child != 0 {
		_ = unix.Kill(child, unix.SIGKILL)
	}
}

// child returns the process of the store, 0 if there is none.
func (s *stage) child() int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range files {
		line, err := os.ReadFile(name)
		if err == nil && bytes.HasPrefix(line, []byte("caddy-moderation-store\x00"+data)) {
			pid := 0
			if _, err := fmt.Sscanf(name, "/proc/%d/", &pid); err == nil {
				return pid
			}
		}
	}
	return 0
}

// sh runs a command, and adds what it prints to the evidence.
func (s *stage) sh(command string) (out string, status int) {
	if s.failed() {
		return "", 0
	}
	ctx, cancel := context.WithTimeout(s.context, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.WaitDelay = time.Second
	text, err := cmd.CombinedOutput()
	status = cmd.ProcessState.ExitCode()
	s.note("$ %s\n%s(status %d, %v)", command, text, status, err)
	return string(text), status
}

// run is sh for a command that must succeed.
func (s *stage) run(command string) string {
	out, status := s.sh(command)
	if status != 0 {
		s.fail("%s: status %d: %s", command, status, out)
	}
	return out
}

// refused is sh for a command that must fail.
func (s *stage) refused(command string) {
	if out, status := s.sh(command); status == 0 {
		s.fail("%s succeeds: %s", command, out)
	}
}

// reload loads the configuration file.
func (s *stage) reload() { s.run("caddy reload --config " + configFile + " --force") }

// wrong are the words of programs that do not understand how they are called.
var wrong = regexp.MustCompile(`(?i)unknown (command|flag|shorthand)|: not found|invalid option|unrecognized option|` +
	`syntax error|unknown primary`)

// look runs the commands of entries while the fault lasts.
func (s *stage) look(titles ...string) {
	for _, title := range titles {
		i := slices.IndexFunc(s.entries, func(e entry) bool { return e.title == title })
		if i < 0 {
			s.fail("the page has no entry %q", title)
			return
		}
		s.looked[title] = true
		for _, command := range s.entries[i].commands() {
			out, status := s.sh(command)
			// 1 is what grep says when it finds nothing, and what commands of a server that is down say.
			if found := wrong.FindString(out); (status > 1 || found != "") && !s.failed() {
				s.fail("%s: the command %q ends with status %d: %s", title, command, status, out)
			}
		}
	}
	s.scrape()
}

// scrape adds the metrics to the evidence.
func (s *stage) scrape() {
	if _, body := s.get(admin + "/metrics"); body != "" {
		s.note("%s", body)
	}
}

// client gives up on servers that do not answer.
var client = &http.Client{Timeout: 40 * time.Second}

func (s *stage) get(address string) (status int, body string) {
	response, err := client.Get(address)
	if err != nil {
		return 0, ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, ""
	}
	return response.StatusCode, string(text)
}

// post sends a request, and adds the status and the code of an error to the evidence.
func (s *stage) post(path, key, contentType, body string) (status int) {
	request, err := http.NewRequestWithContext(s.context, http.MethodPost, site+path, strings.NewReader(body))
	if err != nil {
		s.fail("%w", err)
		return 0
	}
	request.Header.Set("Content-Type", contentType)
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	var problem struct {
		Code  string `json:"code"`
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	_ = json.Unmarshal(text, &problem)
	if response.StatusCode != http.StatusOK {
		s.note("POST %s: %d %s\n%s", path, response.StatusCode, problem.Code+problem.Error.Code, text)
	}
	return response.StatusCode
}

// The requests of the scenarios.
func (s *stage) moderate(key, text string) int {
	body, _ := json.Marshal(map[string]string{"content": text})
	return s.post("/v1/moderate/text", key, "application/json", string(body))
}

func (s *stage) comment(path, text string) int {
	return s.post(path, "", "application/x-www-form-urlencoded", "comment="+strings.ReplaceAll(text, " ", "+"))
}

func (s *stage) suggest(key string) int {
	return s.post("/api/perspective/v1alpha1/comments:suggestscore", key, "application/json",
		`{"comment":{"text":"What a day"},"attributeScores":{"TOXICITY":{"summaryScore":{"value":0.1}}}}`)
}

const (
	harmless = "What a lovely day it was in the garden."
	harmful  = "I will kill you, you stupid idiot"
)

// load calls do about every interval until the result is called.
func (s *stage) load(interval time.Duration, do func()) (stop func()) {
	ctx, cancel := context.WithCancel(s.context)
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil {
			do()
			select {
			case <-ctx.Done():
			case <-time.After(interval):
			}
		}
	})
	stop = func() { cancel(); working.Wait() }
	s.undo = append(s.undo, stop)
	return stop
}

// usual is a load of harmless requests.
func (s *stage) usual() (stop func()) {
	return s.load(40*time.Millisecond, func() {
		s.moderate(acmeKey, harmless)
		s.comment("/guarded", harmless)
	})
}

// until waits until something is so.
func (s *stage) until(what string, so func() bool) {
	for deadline := time.Now().Add(patience); !s.failed(); time.Sleep(50 * time.Millisecond) {
		if so() {
			return
		}
		if time.Now().After(deadline) {
			s.fail("it is not so after %s: %s", patience, what)
		}
	}
}

// logged waits for a text in the server's log.
func (s *stage) logged(text string) {
	s.until("the log says "+text, func() bool {
		log, err := os.ReadFile(s.log())
		return err == nil && seen(text, string(log))
	})
}

// ready waits until the server says that it is ready, or that it is not.
func (s *stage) ready(wanted bool) {
	s.until(fmt.Sprintf("ready is %t", wanted), func() bool {
		status, body := s.get(admin + "/moderation/health/ready")
		if body == "" || (status == http.StatusOK) != wanted {
			return false
		}
		s.note("/moderation/health/ready: %d %s", status, body)
		return true
	})
	s.scrape()
}

// pause waits.
func (s *stage) pause(d time.Duration) {
	if !s.failed() {
		select {
		case <-s.context.Done():
		case <-time.After(d):
		}
	}
}
