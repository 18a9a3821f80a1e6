// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redistest

import "syscall"

// Pause stops the server as it is (SIGSTOP): connections stay, and nothing is answered until [Server.Resume].
func (s *Server) Pause() error { return s.Signal(syscall.SIGSTOP) }

// Resume lets a paused server go on (SIGCONT).
func (s *Server) Resume() error { return s.Signal(syscall.SIGCONT) }
