// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/coder/websocket"
)

// maxMessage is the size in bytes of the largest message that both ends accept.
const maxMessage = 1 << 24

// webSocket echoes messages until the client closes the connection.
func (a *app) webSocket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has answered
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(maxMessage)
	for {
		kind, data, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		if err := conn.Write(r.Context(), kind, data); err != nil {
			return
		}
	}
}

// webSocket checks that a WebSocket works through the guard.
func webSocket(ctx context.Context, r *report, s *site) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var conn *websocket.Conn
	handshake := func() (err error) {
		conn, _, err = websocket.Dial(ctx, "ws://"+strings.TrimPrefix(s.URL, "http://")+"/websocket", nil)
		return err
	}
	r.check("the handshake goes through", handshake)
	if conn == nil {
		return errors.New("there is no connection")
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(maxMessage)
	large := make([]byte, 200_000)
	_, _ = rand.Read(large)
	for _, m := range []struct {
		what string
		kind websocket.MessageType
		data []byte
	}{
		{"a text is echoed", websocket.MessageText, []byte(fine)},
		{"a vile text is echoed, because messages are not judged", websocket.MessageText, []byte(vile)},
		{"200,000 binary bytes are echoed", websocket.MessageBinary, large},
	} {
		r.check(m.what, func() error { return echoed(ctx, conn, m.kind, m.data) })
	}
	r.check("a ping is answered", func() error {
		// The answer is seen only while something reads. Reading ends with the message behind the ping.
		next := make(chan error, 1)
		go func() {
			_, _, err := conn.Read(ctx)
			next <- err
		}()
		err := conn.Ping(ctx)
		return errors.Join(err, conn.Write(ctx, websocket.MessageText, []byte(fine)), <-next)
	})
	r.check("a close is answered", func() error { return conn.Close(websocket.StatusNormalClosure, "") })
	r.check("the connection ends", func() error {
		_, err := s.app.ended(ctx, "/websocket")
		return err
	})
	return nil
}

// echoed returns an error unless the app sends the message back as it is.
func echoed(ctx context.Context, conn *websocket.Conn, want websocket.MessageType, data []byte) error {
	if err := conn.Write(ctx, want, data); err != nil {
		return err
	}
	kind, got, err := conn.Read(ctx)
	if err != nil {
		return err
	}
	if kind != want || !bytes.Equal(got, data) {
		return fmt.Errorf("got a %v with %d bytes, want a %v with %d bytes", kind, len(got), want, len(data))
	}
	return nil
}
