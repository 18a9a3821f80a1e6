// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// batch is what a group commit writes: some counters.
func batch() (entries []disk.Entry) {
	for i := range 10 {
		entries = append(entries, disk.Entry{Key: fmt.Appendf(nil, "count/account-%04d/minute", i),
			Value: make([]byte, 40)})
	}
	return entries
}

// benchmark compares a call in this process with one in another.
func benchmark(b *testing.B, call func(disk.Database) error) {
	both := map[string]func() (disk.Database, error){
		"here": func() (disk.Database, error) { return openDisk(disk.Options{Dir: b.TempDir(), MinFree: 1 << 20}) },
		"there": func() (disk.Database, error) {
			c, err := Start(context.Background(), disk.Options{Dir: b.TempDir(), MinFree: 1 << 20})
			return remote{c}, err
		},
		"nothing there": func() (disk.Database, error) {
			c, err := launcher{name: fakeName}.start(context.Background(), disk.Options{Dir: "bench"})
			return remote{c}, err
		},
	}
	for _, where := range []string{"here", "there", "nothing there"} {
		b.Run(where, func(b *testing.B) {
			db, err := both[where]()
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			if err := db.Write(batch()); err != nil {
				b.Fatal(err)
			}
			b.Run("one caller", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := call(db); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("64 callers", func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism(32)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if err := call(db); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		})
	}
}

type remote struct{ *Client }

func (r remote) Snapshot() (disk.Snapshot, error) { return r.Client.Snapshot() }

func BenchmarkWrite(b *testing.B) {
	entries := batch()
	benchmark(b, func(db disk.Database) error { return db.Write(entries) })
}

func BenchmarkGet(b *testing.B) {
	entries := batch()
	keys := [][]byte{entries[0].Key, entries[1].Key, entries[9].Key}
	benchmark(b, func(db disk.Database) error { _, err := db.Get(keys...); return err })
}

func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		c, err := Start(context.Background(), disk.Options{Dir: dir, MinFree: 1 << 20})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
