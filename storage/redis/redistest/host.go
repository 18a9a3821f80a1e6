// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
)

// reservation is the port that makes a loopback address belong to who listens on it.
const reservation = 6378

// Host is a loopback address of which all ports belong to its owner.
//
// Where only 127.0.0.1 can be listened on (anywhere but on Linux), hosts share it, and a port is one that was free a
// moment ago.
type Host struct {
	// IP is the address.
	IP string

	mu       sync.Mutex
	next     int
	reserved net.Listener
}

// NewHost returns an address that no other process has, until [Host.Release] or the end of this process.
func NewHost() (*Host, error) {
	if runtime.GOOS != "linux" {
		return &Host{IP: "127.0.0.1"}, nil
	}
	var err error
	for range 100 {
		ip := fmt.Sprintf("127.%d.%d.%d", 64+rand.IntN(64), rand.IntN(256), 1+rand.IntN(254))
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(reservation))); err == nil {
			// Below the ports that the kernel gives to outgoing connections, which know no owner.
			return &Host{IP: ip, next: 7000, reserved: l}, nil
		}
	}
	return nil, fmt.Errorf("no loopback address is free: %w", err)
}

// Port returns a port that was not returned before.
func (h *Host) Port() (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reserved == nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		defer l.Close()
		address, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return 0, errors.New("the address of a listener has no port")
		}
		return address.Port, nil
	}
	h.next++
	return h.next, nil
}

// Addr returns an address with a port that was not returned before.
func (h *Host) Addr() (string, error) {
	port, err := h.Port()
	return h.At(port), err
}

// At returns the address of a port.
func (h *Host) At(port int) string { return net.JoinHostPort(h.IP, strconv.Itoa(port)) }

// Release gives the address back.
func (h *Host) Release() {
	if h.reserved != nil {
		_ = h.reserved.Close()
	}
}
