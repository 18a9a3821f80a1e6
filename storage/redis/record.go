// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/internal/stored"
)

var errDamaged = storage.ErrDamaged

// A sealed value is
//
//	1 byte    the version, 1
//	4 bytes   the CRC-32C of the record's name and of everything after this
//	8 bytes   random: no two writes have the same
//	1 byte    the length of the tag
//	          the tag: the incarnation of an account, which scripts read; else empty
//	          the payload
const (
	sealVersion = 1
	sealSum     = 1
	sealNonce   = sealSum + 4
	sealTag     = sealNonce + 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(name string, rest []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(name), castagnoli), castagnoli, rest)
}

// seal returns the value for a record. The tag has at most 255 bytes.
func seal(name, tag string, payload []byte) string {
	b := make([]byte, sealTag, sealTag+1+len(tag)+len(payload))
	b[0] = sealVersion
	_, _ = rand.Read(b[sealNonce:sealTag]) // never fails
	b = append(b, byte(len(tag)))
	b = append(b, tag...)
	b = append(b, payload...)
	binary.BigEndian.PutUint32(b[sealSum:], sum(name, b[sealNonce:]))
	return string(b)
}

// open returns what was sealed. It returns storage.ErrDamaged if the value is not what was written for this record.
func open(name, value string) (tag string, payload []byte, err error) {
	if len(value) <= sealTag || value[0] != sealVersion || len(value) < sealTag+1+int(value[sealTag]) {
		return "", nil, errDamaged
	}
	b := []byte(value)
	if binary.BigEndian.Uint32(b[sealSum:]) != sum(name, b[sealNonce:]) {
		return "", nil, errDamaged
	}
	end := sealTag + 1 + int(b[sealTag])
	return string(b[sealTag+1 : end]), b[end:], nil
}

// deleted is the first byte of the value of a record that was deleted. It stays for a day, so that a deletion whose
// outcome is not known can be told from that of another.
const deleted = 0

// tombstone returns the value for a deleted record. No two are the same.
func tombstone() string {
	b := make([]byte, 1+8)
	_, _ = rand.Read(b[1:])
	return string(b)
}

// sealAccount returns the value for an account.
func (n names) sealAccount(a quota.Account) (string, error) {
	if len(a.Incarnation) > 255 {
		return "", fmt.Errorf("account %s: %w: its incarnation is too long", a.ID, quota.ErrInvalid)
	}
	b, err := stored.Append(nil, a)
	if err != nil {
		return "", fmt.Errorf("account %s: %w", a.ID, err)
	}
	return seal(n.of(a.ID, accountTable), a.Incarnation, b), nil
}

// openAccount decodes an account. The id is that of the record, for the error.
func (n names) openAccount(name, value string) (*quota.Account, error) {
	incarnation, payload, err := open(name, value)
	a := new(quota.Account)
	if err == nil {
		err = stored.Decode(payload, a)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: account %s", errDamaged, n.account(name))
	}
	a.Incarnation = incarnation
	return a, nil
}

// sealKey returns the value for a key.
func (n names) sealKey(k quota.Key) (string, error) {
	b, err := stored.Append(nil, k)
	if err != nil {
		return "", fmt.Errorf("key %s: %w", k.ID, err)
	}
	return seal(n.key(k.Hash), "", b), nil
}

// openKey decodes a key. Its error does not tell the hash.
func (n names) openKey(name, value string) (*quota.Key, error) {
	_, payload, err := open(name, value)
	k := new(quota.Key)
	if err == nil {
		err = stored.Decode(payload, k)
	}
	if err == nil {
		k.Hash, err = n.hash(name)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: a key", errDamaged)
	}
	return k, nil
}

// claim is what the record of a key's id says.
type claim struct {
	hash quota.Hash
	// until is the last millisecond of the server's clock in which the key itself can be added.
	until int64
	value string
}

func newClaim(hash quota.Hash, until string) string { return hex.EncodeToString(hash[:]) + " " + until }

func openClaim(id, value string) (c claim, err error) {
	digits, until, _ := strings.Cut(value, " ")
	b, err := hex.DecodeString(digits)
	if err == nil {
		c.until, err = strconv.ParseInt(until, 10, 64)
	}
	if err != nil || len(b) != len(c.hash) {
		return c, fmt.Errorf("%w: the id of key %s", errDamaged, id)
	}
	copy(c.hash[:], b)
	c.value = value
	return c, nil
}
