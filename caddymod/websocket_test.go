// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package caddymod_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// echo answers a WebSocket handshake, sends the first message back and ends.
func echo(t *testing.T, w http.ResponseWriter) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
	_ = rw.Flush()
	message, err := readFrame(rw.Reader)
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = rw.Write(append([]byte{0x81, byte(len(message))}, message...))
	_ = rw.Flush()
}

// say opens a WebSocket, sends a message of at most 125 bytes and returns the answer.
func say(t *testing.T, path, message string) string {
	t.Helper()
	conn, err := net.Dial("tcp", exampleAddr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", path, exampleAddr)
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the handshake: got %v (%v), want status %d", response, err, http.StatusSwitchingProtocols)
	}
	frame := []byte{0x81, 0x80 | byte(len(message)), 1, 2, 3, 4}
	for i := range len(message) {
		frame = append(frame, message[i]^frame[2+i%4])
	}
	if _, err := conn.Write(frame); err != nil {
		t.Fatal(err)
	}
	answer, err := readFrame(reader)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// readFrame reads one short frame of a WebSocket (RFC 6455, section 5.2).
func readFrame(r io.Reader) ([]byte, error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	mask := make([]byte, 4)
	if head[1]&0x80 != 0 {
		if _, err := io.ReadFull(r, mask); err != nil {
			return nil, err
		}
	}
	payload := make([]byte, head[1]&0x7f)
	_, err := io.ReadFull(r, payload)
	for i := range payload {
		payload[i] ^= mask[i%4]
	}
	return payload, err
}
