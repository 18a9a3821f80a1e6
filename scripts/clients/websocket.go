// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Kinds of WebSocket frames, RFC 6455 section 5.2.
const (
	opText   = 1
	opBinary = 2
	opClose  = 8
	opPing   = 9
	opPong   = 10
)

// acceptOf is the answer to the key of a handshake, RFC 6455 section 4.2.2.
func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// readFrame reads a frame and takes its mask off. Nobody here sends messages in more than one frame.
func readFrame(r *bufio.Reader) (op byte, data []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	length := uint64(head[1] & 0x7f)
	switch length {
	case 126:
		var n uint16
		err = binary.Read(r, binary.BigEndian, &n)
		length = uint64(n)
	case 127:
		err = binary.Read(r, binary.BigEndian, &length)
	}
	if err != nil {
		return 0, nil, err
	}
	if length > 1<<24 {
		return 0, nil, fmt.Errorf("a frame of %d bytes", length)
	}
	var mask [4]byte
	if head[1]&0x80 != 0 {
		if _, err := io.ReadFull(r, mask[:]); err != nil {
			return 0, nil, err
		}
	}
	data = make([]byte, length)
	if _, err := io.ReadFull(r, data); err != nil {
		return 0, nil, err
	}
	for i := range data {
		data[i] ^= mask[i%4]
	}
	return head[0] & 0x0f, data, nil
}

// frame makes a frame, masked as clients must.
func frame(op byte, data []byte, masked bool) []byte {
	b := []byte{0x80 | op}
	var bit byte
	if masked {
		bit = 0x80
	}
	switch n := len(data); {
	case n < 126:
		b = append(b, bit|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, bit|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, bit|127), uint64(n))
	}
	if !masked {
		return append(b, data...)
	}
	var mask [4]byte
	_, _ = rand.Read(mask[:])
	b = append(b, mask[:]...)
	for i, c := range data {
		b = append(b, c^mask[i%4])
	}
	return b
}

// webSocket echoes messages.
func (a *app) webSocket(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		http.Error(w, "this is a WebSocket", http.StatusUpgradeRequired)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	fmt.Fprintf(buffered, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		acceptOf(r.Header.Get("Sec-WebSocket-Key")))
	if buffered.Flush() != nil {
		return
	}
	for {
		op, data, err := readFrame(buffered.Reader)
		if err != nil {
			return
		}
		if op == opPing {
			op = opPong
		}
		if _, err := conn.Write(frame(op, data, false)); err != nil || op == opClose {
			return
		}
	}
}

// webSocket is a client that makes the handshake and the frames by hand.
func webSocket(ctx context.Context, r *report, s *site) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	in := bufio.NewReader(conn)
	r.check("the handshake goes through", func() error {
		const key = "dGhlIHNhbXBsZSBub25jZQ=="
		fmt.Fprintf(conn, "GET /websocket HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n",
			strings.TrimPrefix(s.URL, "http://"), key)
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Sec-WebSocket-Accept") != acceptOf(key) {
			return fmt.Errorf("%s, headers %v", response.Status, response.Header)
		}
		return nil
	})
	large := make([]byte, 200_000)
	_, _ = rand.Read(large)
	for _, m := range []struct {
		what string
		op   byte
		data []byte
		want byte
	}{
		{"a text is echoed", opText, []byte(fine), opText},
		{"a vile text is echoed, because messages are not judged", opText, []byte(vile), opText},
		{"200,000 binary bytes are echoed", opBinary, large, opBinary},
		{"a ping is answered", opPing, []byte("are you there"), opPong},
		{"a close is answered", opClose, []byte{0x03, 0xe8}, opClose},
	} {
		r.check(m.what, func() error {
			if _, err := conn.Write(frame(m.op, m.data, true)); err != nil {
				return err
			}
			op, data, err := readFrame(in)
			if err != nil {
				return err
			}
			if op != m.want || !bytes.Equal(data, m.data) {
				return fmt.Errorf("got a frame of kind %d with %d bytes, want kind %d with %d bytes", op, len(data), m.want, len(m.data))
			}
			return nil
		})
	}
	r.check("the connection ends", func() error {
		if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
			return fmt.Errorf("got %v, want the end of the connection", err)
		}
		return nil
	})
	return nil
}
