// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// sequential is the size in bytes of the largest batch that is not worth sharing out.
const sequential = 2_000

// batch judges the texts of requests. Each request judges its own texts; of what processors there are beyond one, all
// requests together employ no more than one goroutine each, so that a large batch is done faster and nobody waits for it.
type batch struct {
	// helpers has room for one value for each goroutine that helps.
	helpers chan struct{}
}

// newBatch returns a batch for so many processors.
func newBatch(processors int) *batch {
	return &batch{helpers: make(chan struct{}, max(0, processors-1))}
}

// judge returns the verdict on each text. It ends early when ctx does or when a text cannot be judged, with the error.
func (b *batch) judge(ctx context.Context, e *engine.Engine, texts []string, policy *engine.Policy) ([]engine.Result, error) {
	results := make([]engine.Result, len(texts))
	var next atomic.Int64
	// work judges texts until there are none left.
	work := func(ctx context.Context) error {
		for i := int(next.Add(1)) - 1; i < len(texts); i = int(next.Add(1)) - 1 {
			if err := ctx.Err(); err != nil {
				return err
			}
			result, err := e.Moderate(ctx, engine.Request{Content: texts[i], Policy: policy})
			if err != nil {
				return err
			}
			results[i] = result
			// Let requests in between that are done soon: the scheduler would let them wait for 10 ms of each batch.
			runtime.Gosched()
		}
		return nil
	}
	if len(texts) == 1 || size(texts) <= sequential {
		return results, work(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var helping sync.WaitGroup
	defer cancel(nil)
	func() {
		defer helping.Wait()
		for range min(len(texts)-1, cap(b.helpers)) {
			select {
			case b.helpers <- struct{}{}:
				helping.Go(func() {
					defer func() { <-b.helpers }()
					cancelOnError(cancel, func() error { return work(ctx) })
				})
			default:
			}
		}
		cancelOnError(cancel, func() error { return work(ctx) })
	}()
	return results, context.Cause(ctx)
}

// cancelOnError runs work, and cancels what it is a part of when it fails. A panic counts as a failure: in a goroutine that no
// server watches it would end the process.
func cancelOnError(cancel context.CancelCauseFunc, work func() error) {
	defer func() {
		if v := recover(); v != nil {
			cancel(fmt.Errorf("the classifier panicked: %v\n%s", v, debug.Stack()))
		}
	}()
	if err := work(); err != nil {
		cancel(err)
	}
}

// size is the length of all texts together in bytes.
func size(texts []string) (n int) {
	for _, text := range texts {
		n += len(text)
	}
	return n
}
