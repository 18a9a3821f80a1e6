// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import "github.com/caddy-moderation/caddy-moderation/storage/badger/disk"

// Failures returns how often the database has failed since [Open] and had to be opened again: its process ended, its
// disk did not answer, a sync failed. A full disk is no failure.
func (s *Store) Failures() uint64 { return s.supervisor.failures.Load() }

// Usage returns how many bytes the directory takes on the disk, and how many its file system has left. It waits for a
// disk that hangs. Where the system does not tell, the error wraps [errors.ErrUnsupported].
func (s *Store) Usage() (used, free uint64, err error) {
	u, err := disk.UsageOf(s.dir)
	return u.Used, u.Free, err
}
