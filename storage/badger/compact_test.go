// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-moderation/caddy-moderation/engine/feedback"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
)

// TestTablesAreCompacted guards against tables that are never merged, because Badger's own compactors are off, and against
// records that are lost when they are.
func TestTablesAreCompacted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	core, logs := observer.New(zap.DebugLevel)
	o := badger.Options{Dir: t.TempDir(), Logger: zap.New(core)}
	s, err := badger.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	const workers, each = 8, 150
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := range each {
				// Every text is another, or compression would leave too few tables.
				var text [20_000]byte
				rand.Read(text[:])
				r := feedback.Record{ID: fmt.Sprintf("%d-%d", worker, i), Time: crashTime, Account: "a", Text: hex.EncodeToString(text[:])}
				if err := s.AppendFeedback(ctx, r, feedback.Bound{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for i := 0; logs.FilterMessage("the database is compacted").Len() == 0; i++ {
		if i > 30_000 {
			t.Fatal("nothing is compacted")
		}
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	stored := 0
	for _, err := range openDir(t, o.Dir).Feedback(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		stored++
	}
	if stored != workers*each {
		t.Errorf("%d records are stored, %d were acknowledged", stored, workers*each)
	}
}
