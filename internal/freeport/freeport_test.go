// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package freeport_test

import (
	"net"
	"runtime"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/internal/freeport"
)

// TestAddressesAreKept asks the kernel for thousands of free ports: none of them may be one that was found before, or
// two servers of tests that run at the same time would get the same one.
func TestAddressesAreKept(t *testing.T) {
	t.Parallel()
	found, err := freeport.Addresses(100)
	if err != nil {
		t.Fatal(err)
	}
	ours := make(map[string]bool)
	for _, address := range found {
		if ours[address] {
			t.Errorf("%s is given twice", address)
		}
		ours[address] = true
	}
	for range 20_000 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS == "linux" && ours[listener.Addr().String()] {
			t.Errorf("%s was given to somebody else", listener.Addr())
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, address := range found {
		for _, network := range []string{"", "127.0.0.1"} {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				t.Fatal(err)
			}
			listener, err := net.Listen("tcp", net.JoinHostPort(network, port))
			if err != nil {
				t.Fatalf("nobody can listen on the port: %v", err)
			}
			if err := listener.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
