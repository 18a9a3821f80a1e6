// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package faults_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/faults"
)

// folderVar makes the test program one that works with files in this folder and says what became of it.
const folderVar = "FAULTS_TEST_FOLDER"

func TestMain(m *testing.M) {
	faults.Main()
	if folder := os.Getenv(folderVar); folder != "" {
		work(folder)
		return
	}
	os.Exit(m.Run())
}

// work does what a database does, several times.
func work(folder string) {
	for round := range 3 {
		name := filepath.Join(folder, fmt.Sprint("file", round))
		file, err := os.Create(name)
		report("create", err)
		if err != nil {
			continue
		}
		_, err = file.WriteAt([]byte("text"), 0)
		report("write", err)
		report("truncate", file.Truncate(100))
		_, err = syscall.Mmap(int(file.Fd()), 0, 100, syscall.PROT_READ, syscall.MAP_SHARED)
		report("map", err)
		report("sync", file.Sync())
		report("close", file.Close())
		report("rename", os.Rename(name, name+".new"))
		report("remove", os.Remove(name+".new"))
	}
}

func report(what string, err error) {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		fmt.Println(what, errno.Error())
		return
	}
	fmt.Println(what, err)
}

func supervised(t *testing.T, calls []string, decide faults.Decide) string {
	t.Helper()
	s, err := faults.New(calls, decide)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A child of the supervised process is supervised as well.
	command, err := s.Wrap([]string{"/bin/sh", "-c", `"$0"; true`, self})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), folderVar+"="+t.TempDir())
	cmd.ExtraFiles = []*os.File{s.File()}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(); err != nil {
		_ = cmd.Wait()
		t.Skipf("seccomp cannot be had here: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("waiting for the supervised program: %v; it printed\n%s", err, out.String())
	}
	return out.String()
}

func TestCallsFailAsDecided(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		call  string
		errno syscall.Errno
		want  string
	}{
		"a sync that fails":            {"fsync", syscall.EIO, "sync input/output error"},
		"no descriptor is left":        {"openat", syscall.EMFILE, "create too many open files"},
		"no room for a write":          {"pwrite64", syscall.ENOSPC, "write no space left on device"},
		"a file that cannot grow":      {"ftruncate", syscall.ENOSPC, "truncate no space left on device"},
		"a file that cannot be mapped": {"mmap", syscall.ENOMEM, "map cannot allocate memory"},
		"a name that cannot change":    {"renameat", syscall.EROFS, "rename read-only file system"},
		"a name that cannot go":        {"unlinkat", syscall.EROFS, "remove read-only file system"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen atomic.Int64
			out := supervised(t, []string{test.call}, func(c faults.Call) syscall.Errno {
				// Only the second of the calls for the test's files fails.
				if c.Name == test.call && strings.Contains(c.Path(), "/file") && seen.Add(1) == 2 {
					return test.errno
				}
				return 0
			})
			if got := strings.Count(out, test.want+"\n"); got != 1 {
				t.Errorf("%q was printed %d times, want once, in\n%s", test.want, got, out)
			}
			if word, _, _ := strings.Cut(test.want, " "); strings.Count(out, word+" <nil>\n") != 2 {
				t.Errorf("the other calls did not succeed:\n%s", out)
			}
		})
	}
}

func TestUnknownCallsAreRefused(t *testing.T) {
	t.Parallel()
	if _, err := faults.New([]string{"fsync", "frobnicate"}, nil); err == nil {
		t.Error("supervising the unknown call \"frobnicate\": got no error")
	}
}
