// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/backup"
	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// CheckReport is what [Check] found in a directory.
type CheckReport struct {
	*disk.Report
	// Records is the number of records of each kind that can be read.
	Records map[string]int `json:"records"`
	// LeftOut is the number of records that cannot be read, by kind and account.
	LeftOut map[string]int `json:"left_out,omitempty"`
	// Missing names the parts of files that cannot be read, by the records around them. A record in such a part is
	// missing, or is found in an older version.
	Missing []string `json:"missing,omitempty"`
	// Unlisted are tables that are read although it is not known whether they belong to the database: records in them
	// may have been deleted.
	Unlisted []string `json:"unlisted,omitempty"`
}

// Err returns nil if everything that was acknowledged is there and whole. Otherwise the error names what is not.
func (c *CheckReport) Err() error {
	if err := c.Report.Err(); err != nil {
		return err
	}
	if len(c.LeftOut) == 0 {
		return nil
	}
	what := slices.Sorted(maps.Keys(c.LeftOut))
	return fmt.Errorf("%w: %s cannot be read", ErrDamaged, strings.Join(what, ", "))
}

// Check reads everything in a directory that no server has open, and changes nothing in it. If save is not nil, Check
// writes what can be read to it, as a backup. The report says what is damaged. An error says that the directory
// cannot be checked; it wraps [ErrLocked] if a server has the directory open.
func Check(ctx context.Context, dir string, save io.Writer) (*CheckReport, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	lock, err := disk.Lock(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	report, err := disk.Inspect(dir)
	if err != nil {
		return nil, err
	}
	if report.Empty() {
		return nil, fmt.Errorf("there is no database in %s", dir)
	}
	c := &CheckReport{Report: report, Records: make(map[string]int), LeftOut: make(map[string]int)}
	var to *backup.Writer
	if save != nil {
		to = backup.NewWriter(save)
		if err := to.Record(schemaKey, encodeSchema(schema), 0); err != nil {
			return nil, err
		}
	}
	lost, err := report.Salvage(func(r disk.SalvagedRecord) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.Damaged {
			c.LeftOut[describe(r.Key)]++
			return nil
		}
		c.Records[kind(r.Key)]++
		if to == nil {
			return nil
		}
		return c.save(to, r)
	})
	if err != nil {
		return nil, err
	}
	c.noteLost(lost)
	if to == nil {
		return c, nil
	}
	return c, to.Close()
}

// noteLost fills in Missing and Unlisted.
func (c *CheckReport) noteLost(ranges []disk.LostRange) {
	for _, l := range ranges {
		switch {
		case l.Unlisted:
			c.Unlisted = append(c.Unlisted, l.File)
		case l.From == nil:
			c.Missing = append(c.Missing, fmt.Sprintf("%s: a part of it", l.File))
		case l.To == nil:
			c.Missing = append(c.Missing, fmt.Sprintf("%s: records from %s on", l.File, describe(l.From)))
		case describe(l.From) == describe(l.To):
			c.Missing = append(c.Missing, fmt.Sprintf("%s: records such as %s", l.File, describe(l.From)))
		default:
			c.Missing = append(c.Missing, fmt.Sprintf("%s: records from %s to %s", l.File, describe(l.From),
				describe(l.To)))
		}
	}
}

// save writes a record to a backup. The indexes of keys are rebuilt from the keys, so that neither is there without
// the other.
func (c *CheckReport) save(to *backup.Writer, r disk.SalvagedRecord) error {
	key, value := r.Key, r.Value
	switch {
	case bytes.HasPrefix(key, []byte("i/")), bytes.HasPrefix(key, []byte("u/")):
		return nil
	case !bytes.HasPrefix(key, []byte("k/")):
		return to.Record(key, value, r.Expires)
	}
	var k quota.Key
	if err := errors.Join(decodeHash(key[2:], &k.Hash), decodeJSON(value, &k)); err != nil {
		c.LeftOut[describe(key)]++
		c.Records[kind(key)]--
		return nil
	}
	return errors.Join(
		to.Record(key, value, 0),
		to.Record(keyIDKey(k.ID), k.Hash[:], 0),
		to.Record(keyOfAccount(k), k.Hash[:], 0),
	)
}

// kind names the kind of a record, for counting.
func kind(key []byte) string {
	if len(key) < 2 || key[1] != '/' {
		return "other"
	}
	switch key[0] {
	case 'a':
		return "accounts"
	case 'k':
		return "keys"
	case 'i', 'u':
		return "entries in indexes of keys"
	case 'l':
		return "last uses of keys"
	case 'm', 'd', 'p', 'q', 'b':
		return "counts"
	case 'f':
		return "feedback"
	case 'c':
		return "documents"
	}
	return "other"
}
