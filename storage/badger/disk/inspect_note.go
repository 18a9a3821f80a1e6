// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// This stands in for progress.go and seal.go until they are there.

const (
	progressName = "PROGRESS"
	sealedMeta   = 1
)

type note struct {
	generation, committed, synced uint64
	boot, identity                [16]byte
}

// readNote reads PROGRESS.
func (r *Report) readNote(dir string) (n note, found bool) {
	b, err := readFile(filepath.Join(dir, progressName), 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return n, false
	}
	if err != nil {
		r.damage(progressName, "it cannot be read")
		return n, false
	}
	for at := 0; at+512 <= len(b); at += 512 {
		slot := b[at : at+512]
		const size = 8 + 3*8 + 2*16
		if string(slot[:8]) != "cmprog1\n" || crc32.Checksum(slot[:size], castagnoli) != binary.BigEndian.Uint32(slot[size:]) {
			continue
		}
		s := note{
			generation: binary.BigEndian.Uint64(slot[8:]), committed: binary.BigEndian.Uint64(slot[16:]), synced: binary.BigEndian.Uint64(slot[24:]),
			boot: [16]byte(slot[32:]), identity: [16]byte(slot[48:]),
		}
		if !found || s.generation > n.generation {
			n, found = s, true
		}
	}
	if !found && lastNonZero(b) >= 0 {
		r.damage(progressName, "it is damaged")
	}
	return n, found
}

func bootID() (id [16]byte) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(b)), "-", ""))
	if err != nil || len(raw) != 16 {
		return id
	}
	return [16]byte(raw)
}

func seal(key, payload []byte) []byte {
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, payload)
	return binary.BigEndian.AppendUint32(append(make([]byte, 0, len(payload)+4), payload...), sum)
}

func unseal(key, value []byte) (payload []byte, ok bool) {
	if len(value) < 4 {
		return nil, false
	}
	payload = value[:len(value)-4]
	return payload, crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, payload) == binary.BigEndian.Uint32(value[len(value)-4:])
}
