// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package base62 makes random text of digits and letters, for keys and ids.
package base62

import "io"

// alphabet are the characters, in the order of ASCII.
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// fair is the largest multiple of 62 in a byte. Bytes from there on are skipped: a remainder would make some characters
// likelier than others.
const fair = 256 / len(alphabet) * len(alphabet)

// Append appends n random characters (0-9, A-Z, a-z) to dst, each equally likely. It reads random in blocks of 32
// bytes. When reading fails, it returns the error and dst with the characters that it had until then.
func Append(dst []byte, random io.Reader, n int) ([]byte, error) {
	var block [32]byte
	for n > 0 {
		if _, err := io.ReadFull(random, block[:]); err != nil {
			return dst, err
		}
		for _, b := range block {
			if int(b) < fair && n > 0 {
				dst = append(dst, alphabet[int(b)%len(alphabet)])
				n--
			}
		}
	}
	return dst, nil
}
