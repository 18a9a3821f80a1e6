// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package redistest

import "errors"

var errNoPause = errors.New("processes cannot be paused on this system")

// Pause returns an error: it needs Unix.
func (s *Server) Pause() error { return errNoPause }

// Resume returns an error: it needs Unix.
func (s *Server) Resume() error { return errNoPause }
