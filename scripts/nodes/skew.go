// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// skewVariable is the environment variable with which a server that buildSkewed built has a wrong clock.
const skewVariable = "NODES_CLOCK_AHEAD"

// skewFile is put beside the files whose clock is replaced. Only the time of day is wrong: what measures durations is
// not, as on a machine whose clock was set wrong before the start.
const skewFile = `package %s

import (
	"os"
	"time"
	"unsafe"
)

var skewedBy = func() time.Duration {
	d, _ := time.ParseDuration(os.Getenv("` + skewVariable + `"))
	return d
}()

// skewedNow is time.Now with another wall clock and the same monotonic clock: the seconds are in the upper bits of the
// first word.
func skewedNow() time.Time {
	t := time.Now()
	*(*uint64)(unsafe.Pointer(&t)) += uint64(int64(skewedBy/time.Second)) << 30
	return t
}

func skewedSince(t time.Time) time.Duration { return skewedNow().Sub(t) }

func skewedUntil(t time.Time) time.Duration { return t.Sub(skewedNow()) }

var _, _ = skewedSince, skewedUntil
`

// skewMain is the program: the server of this checkout.
const skewMain = `package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-moderation/caddy-moderation/caddymod"
)

func main() { caddycmd.Main() }
`

var (
	clockCall   = regexp.MustCompile(`\btime\.(Now|Since|Until)\b`)
	packageName = regexp.MustCompile(`(?m)^package (\w+)`)
)

// buildSkewed builds a server whose own packages read the clock through skewedNow. Nothing in the checkout is
// changed, and no server that is shipped has such a clock: the go command is told to read some files from elsewhere.
func buildSkewed(ctx context.Context, folder string) (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	overlay := map[string]string{}
	put := func(path, text string) error {
		file := filepath.Join(folder, fmt.Sprintf("%d.go", len(overlay)))
		overlay[path] = file
		return os.WriteFile(file, []byte(text), 0o600)
	}
	replaced := map[string]string{}
	for _, room := range []string{"caddymod", "quota", "storage"} {
		err := filepath.WalkDir(room, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil || !clockCall.Match(text) {
				return err
			}
			replaced[filepath.Dir(path)] = string(packageName.FindSubmatch(text)[1])
			changed := clockCall.ReplaceAllString(string(text), "skewed$1") + "\nvar _ time.Duration\n"
			return put(filepath.Join(root, path), changed)
		})
		if err != nil {
			return "", err
		}
	}
	for dir, name := range replaced {
		if err := put(filepath.Join(root, dir, "zz_skewed.go"), fmt.Sprintf(skewFile, name)); err != nil {
			return "", err
		}
	}
	const program = "scripts/nodes/skewed"
	if err := put(filepath.Join(root, program, "main.go"), skewMain); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return "", err
	}
	list := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		return "", err
	}
	out := filepath.Join(folder, "caddy-skewed")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags=nobadger,nomysql,nopgx", "-ldflags=-w -s",
		"-overlay", list, "-o", out, "./"+program)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return out, cmd.Run()
}
