// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestOnlyFilesAreReplaced: as root, "--out /dev/null --force" would put a file in the place of the device, for every
// program of the machine. A socket stands for it here, because not everybody may make a device.
func TestOnlyFilesAreReplaced(t *testing.T) {
	t.Parallel()
	// The path of a socket must be short.
	folder, err := os.MkdirTemp("", "out")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	file, socket := filepath.Join(folder, "file"), filepath.Join(folder, "socket")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Skipf("no sockets here: %v", err)
	}
	defer listener.Close()
	link := func(name, target string) string {
		name = filepath.Join(folder, name)
		if err := os.Symlink(target, name); err != nil {
			t.Skipf("no links here: %v", err)
		}
		return name
	}
	toFile, toSocket := link("to-file", file), link("to-socket", socket)
	toNothing, toFolder := link("to-nothing", filepath.Join(folder, "none")), link("to-folder", folder)
	const exists, noFile = " exists; add --force to replace it", " is not a file and cannot be replaced by one; name another file"
	for _, row := range []struct {
		what, name string
		force      bool
		want       string
	}{
		{"nothing", filepath.Join(folder, "none"), false, ""},
		{"a file", file, false, file + exists},
		{"a file by force", file, true, ""},
		{"a socket", socket, false, socket + noFile},
		{"a socket by force", socket, true, socket + noFile},
		{"a folder by force", folder, true, folder + noFile},
		{"a link to a file", toFile, false, toFile + exists},
		{"a link to a file by force", toFile, true, ""},
		{"a link to a socket by force", toSocket, true, toSocket + noFile},
		{"a link to a folder by force", toFolder, true, toFolder + noFile},
		{"a link to nothing", toNothing, false, toNothing + exists},
		{"a link to nothing by force", toNothing, true, ""},
		{"a device by force", os.DevNull, true, os.DevNull + noFile},
	} {
		t.Run(row.what, func(t *testing.T) {
			got := ""
			if err := checkFree(row.name, row.force); err != nil {
				got = err.Error()
			}
			if got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}
