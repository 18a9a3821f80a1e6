// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package freeport finds ports for the servers of tests and of programs that check the service from outside.
package freeport

import (
	"io"
	"net"
	"runtime"
)

// Addresses returns n addresses of the loopback interface, such as 127.0.0.1:41234, on which nothing listens. On Linux
// the kernel gives their ports to nobody who asks for any free port for the next minute; who names one can listen on
// it at once, if it sets SO_REUSEADDR as Go, Redis and most servers do.
func Addresses(n int) ([]string, error) {
	addresses := make([]string, n)
	for i := range addresses {
		// All stay open until the end, so that none is given out twice.
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		addresses[i] = listener.Addr().String()
		if err := reserve(listener); err != nil {
			return nil, err
		}
	}
	return addresses, nil
}

// Port returns the port of one such address. It panics if there is none: a test cannot begin then.
func Port() string {
	addresses, err := Addresses(1)
	if err != nil {
		panic(err)
	}
	_, port, err := net.SplitHostPort(addresses[0])
	if err != nil {
		panic(err)
	}
	return port
}

// reserve leaves a connection of the listener's port in the state TIME-WAIT (RFC 9293, section 3.6): its own end, which
// closes first. Elsewhere than on Linux it does nothing, because what that state keeps others from differs.
func reserve(listener net.Listener) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return err
	}
	defer client.Close()
	server, err := listener.Accept()
	if err != nil {
		return err
	}
	if err := server.Close(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, client) // until the other end is closed
	return err
}
