// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/server"
)

// redis starts a Redis server at the address that the page names. It keeps its data in a file. stop kills it.
func (s *stage) redis() (stop func()) {
	if s.failed() {
		return func() {}
	}
	for _, name := range []string{"redis-server", "redis-cli"} {
		if _, err := exec.LookPath(name); err != nil {
			s.skip("%s is not installed: run scripts/nodes/install.sh", name)
			return func() {}
		}
	}
	dir := filepath.Join(s.folder, "redis")
	s.must(os.MkdirAll(dir, 0o755))
	process, err := server.Start(context.WithoutCancel(s.context), server.Options{
		Command: []string{"redis-server", "--bind", "127.0.0.1", "--port", "6379", "--dir", dir, "--save", "",
			"--appendonly", "yes", "--appendfsync", "always"},
		Listen: "localhost:6379", Timeout: patience,
	})
	if err != nil {
		s.fail("%w", err)
		return func() {}
	}
	s.undo = append(s.undo, process.Kill)
	return process.Kill
}

// shared is [stage.config] for a configuration over the Redis server, with options of the storage.
func (s *stage) shared(options string) {
	s.config("", "", "")
	if s.failed() {
		return
	}
	text, err := os.ReadFile(configFile)
	s.must(err)
	config := strings.Replace(string(text), "storage badger "+data, "storage redis localhost:6379 {\n"+options+"\n}", 1)
	s.must(os.WriteFile(configFile, []byte(config), 0o600))
}

// sharedStore takes the server of a shared store away, empties its database, and configures it wrongly.
func sharedStore(s *stage) {
	kill := s.redis()
	s.shared("")
	s.start()
	s.monitor()
	s.usual()
	s.ready(true)
	kill()
	s.fires("ModerationStoreUnreachable")
	s.run(`curl -si -H "Authorization: Bearer $ACME_MODERATION_KEY" -d '{"content":"a text"}' ` +
		`-H 'Content-Type: application/json' ` + site + `/v1/moderate/text`)
	s.ready(true) // and says the mode
	s.look("ModerationStoreUnreachable")
	s.redis()
	s.ends("ModerationStoreUnreachable")
	s.logged("the store is available again")
	s.ready(true)
	// Without an account of the store nobody would miss its records.
	s.run("caddy moderation account create kept")
	s.run("redis-cli flushall")
	s.fires("ModerationStoreUnreachable")
	s.moderate("mod_sk_unknownunknownunknownunknown1234", harmless)
	s.look("The database of the store was emptied")
	s.stop()
	s.start()
	s.ends("ModerationStoreUnreachable")
	s.ready(true)
	s.shared("cluster")
	s.refused("caddy reload --config " + configFile)
	s.run("redis-cli config set requirepass secret")
	s.shared("timeout 300ms") // with the options as they are, the reload would keep the connections
	s.refused("caddy reload --config " + configFile)
	s.shared("password wrong")
	s.refused("caddy reload --config " + configFile)
	s.stop()
	s.startFails()
	s.look("The server of the store is refused")
}
