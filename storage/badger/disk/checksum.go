// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"encoding/binary"
	"hash/crc32"
)

// checksummed is the user meta byte of a Badger record whose value ends with a checksum: the CRC-32C (RFC 3720,
// appendix B.4) of key and value, in 4 bytes, big-endian. The key is part of it so that a value under another key is
// recognized, too.
const checksummed byte = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// withChecksum returns a new slice with value and its checksum.
func withChecksum(key, value []byte) []byte {
	b := make([]byte, 0, len(value)+crc32.Size)
	return binary.BigEndian.AppendUint32(append(b, value...), checksum(key, value))
}

// verifyChecksum returns the part of stored that is the value, and whether its checksum is right.
func verifyChecksum(key, stored []byte) (value []byte, whole bool) {
	if len(stored) < crc32.Size {
		return nil, false
	}
	value = stored[:len(stored)-crc32.Size]
	return value, binary.BigEndian.Uint32(stored[len(value):]) == checksum(key, value)
}
