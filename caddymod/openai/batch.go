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

// maxSequential is the size, in bytes, of the largest batch that is not shared among workers.
const maxSequential = 2_000

// batch moderates the texts of requests. The goroutine of each request moderates its texts, helped by workers. All
// requests together have one worker for each processor but one, so that a large batch is done faster and other
// requests do not wait for it.
type batch struct {
	// workers has room for one value for each worker.
	workers chan struct{}
}

// newBatch returns a batch for a number of processors.
func newBatch(processors int) *batch {
	return &batch{workers: make(chan struct{}, max(0, processors-1))}
}

// moderate returns the verdict on each text, as part of a request that says the rest. It ends early with an error when
// ctx ends or a text cannot be moderated.
func (b *batch) moderate(
	ctx context.Context, e *engine.Engine, texts []string, request engine.Request,
) ([]engine.Result, error) {
	results := make([]engine.Result, len(texts))
	var next atomic.Int64
	// work moderates texts until none are left.
	work := func(ctx context.Context) error {
		for i := int(next.Add(1)) - 1; i < len(texts); i = int(next.Add(1)) - 1 {
			if err := ctx.Err(); err != nil {
				return err
			}
			one := request
			one.Content = texts[i]
			result, err := e.Moderate(ctx, one)
			if err != nil {
				return err
			}
			results[i] = result
			// Let short requests run in between: the scheduler would make them wait for 10 ms of each batch.
			runtime.Gosched()
		}
		return nil
	}
	if len(texts) == 1 || size(texts) <= maxSequential {
		return results, work(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var working sync.WaitGroup
	defer cancel(nil)
	func() {
		defer working.Wait()
		for range min(len(texts)-1, cap(b.workers)) {
			select {
			case b.workers <- struct{}{}:
				working.Go(func() {
					defer func() { <-b.workers }()
					cancelOnError(cancel, func() error { return work(ctx) })
				})
			default:
			}
		}
		cancelOnError(cancel, func() error { return work(ctx) })
	}()
	return results, context.Cause(ctx)
}

// cancelOnError runs work, and cancels the batch when it fails. A panic counts as a failure: in a goroutine that is
// not the server's it would end the process.
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

// size returns the length of all texts together, in bytes.
func size(texts []string) (n int) {
	for _, text := range texts {
		n += len(text)
	}
	return n
}
