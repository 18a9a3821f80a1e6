// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// KeyBytes is the length of a [Key]: 32 bytes, for AES-256-GCM (NIST SP 800-38D).
const KeyBytes = 32

// Key encrypts items, and keys the hashes under which texts and authors are found.
type Key [KeyBytes]byte

// ParseKey parses a key of 64 hexadecimal digits, or of 32 bytes in Base64. The error does not tell the key.
func ParseKey(text string) (Key, error) {
	text = strings.TrimSpace(text)
	decoded, err := hex.DecodeString(text)
	if err != nil {
		decoded, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil || len(decoded) != KeyBytes {
		return Key{}, fmt.Errorf("%w: a key is %d random bytes in Base64 or as hexadecimal digits, as "+
			"\"openssl rand -base64 32\" prints them", ErrInvalid, KeyBytes)
	}
	return Key(decoded), nil
}

// How a value is kept: its first byte.
const (
	plain  = 'p'
	sealed = 'e'
)

// sealer encodes items, encrypted if there is a key.
type sealer struct {
	aead cipher.AEAD // nil without a key
	// id tells keys apart.
	id [4]byte
	// former are those with the keys that were used before. They only open.
	former []sealer
}

func newSealer(key *Key, former ...Key) (sealer, error) {
	if key == nil {
		return sealer{}, nil
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return sealer{}, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return sealer{}, err
	}
	s := sealer{aead: aead}
	sum := sha256.Sum256(append([]byte("caddy-moderation review key id "), key[:]...))
	copy(s.id[:], sum[:])
	for i := range former {
		f, err := newSealer(&former[i])
		if err != nil {
			return sealer{}, err
		}
		s.former = append(s.former, f)
	}
	return s, nil
}

// seal encodes a value that is kept under a name.
func (s sealer) seal(name string, v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	encoded := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if s.aead == nil {
		return append([]byte{plain}, encoded...), nil
	}
	out := append([]byte{sealed}, s.id[:]...)
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	out = append(out, nonce...)
	return s.aead.Seal(out, nonce, encoded, []byte(name)), nil
}

// current reports whether a value is as seal returns it: with the present key, if there is one.
func (s sealer) current(value []byte) bool {
	if s.aead == nil || len(value) == 0 {
		return true
	}
	return value[0] == sealed && s.sealed(value[1:])
}

// sealed reports whether what follows the kind of a value was encrypted with the key.
func (s sealer) sealed(encoded []byte) bool {
	return s.aead != nil && len(encoded) >= len(s.id) && bytes.Equal(encoded[:len(s.id)], s.id[:])
}

// open decodes what seal has returned. What was kept without a key is read with one, too.
func (s sealer) open(name string, value []byte, v any) error {
	if len(value) == 0 {
		return fmt.Errorf("review item: %w", ErrDamaged)
	}
	kind, encoded := value[0], value[1:]
	if kind == sealed {
		if i := slices.IndexFunc(s.former, func(f sealer) bool { return f.sealed(encoded) }); i >= 0 {
			s = s.former[i]
		}
		if !s.sealed(encoded) {
			return ErrKey
		}
		encoded = encoded[len(s.id):]
		if len(encoded) < s.aead.NonceSize() {
			return fmt.Errorf("review item: %w", ErrDamaged)
		}
		var err error
		nonce := encoded[:s.aead.NonceSize()]
		if encoded, err = s.aead.Open(nil, nonce, encoded[s.aead.NonceSize():], []byte(name)); err != nil {
			return fmt.Errorf("review item: %w", ErrDamaged)
		}
	}
	if err := json.Unmarshal(encoded, v); err != nil {
		return fmt.Errorf("review item: %w", ErrDamaged)
	}
	return nil
}

// hashes makes the keyed hashes under which texts and authors are found, so that who can read the store but not the
// key cannot try texts and names.
type hashes struct{ secret []byte }

// of returns the hash of a text for one purpose.
func (h hashes) of(purpose, text string) string {
	mac := hmac.New(sha256.New, h.secret)
	mac.Write([]byte(purpose + "\x00" + text))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// alike returns what texts that hardly differ have in common: their letters and digits in lower case.
func alike(texts []Text) string {
	var b strings.Builder
	for _, t := range texts {
		for _, r := range t.Text {
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				b.WriteRune(unicode.ToLower(r))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TextHash is the SHA-256 of the texts of an item, as hexadecimal digits: of the only text, or of all texts with line
// feeds between them.
func TextHash(texts []Text) string {
	sum := sha256.New()
	for i, t := range texts {
		if i > 0 {
			sum.Write([]byte("\n"))
		}
		sum.Write([]byte(t.Text))
	}
	return hex.EncodeToString(sum.Sum(nil))
}
