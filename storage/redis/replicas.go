// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-moderation/caddy-moderation/storage"
)

// errTooFewReplicas says that a change did not reach as many replicas as the options ask for.
var errTooFewReplicas = fmt.Errorf("%w: too few replicas have the change", storage.ErrUnavailable)

// evalAcknowledged evaluates a script that changes an account, a key or a correction, and waits until as many replicas
// have the change as the options ask for. If fewer have it, the caller takes the change back.
func (s *Store) evalAcknowledged(
	ctx context.Context, script *rueidis.Lua, keys, args []string,
) (outcome string, rest []rueidis.RedisMessage, err error) {
	if s.options.Replicas == 0 {
		return s.link.timed(ctx, script, keys, args)
	}
	c, part, err := s.link.allowed(ctx, s.link.slotOf(keys))
	if err != nil {
		return "", nil, err
	}
	sent := monotonic()
	results, err := replicated(ctx, c, script, keys, args, s.options)
	if err != nil {
		return "", nil, s.link.failed(ctx, part, err)
	}
	s.link.answered(part)
	s.shortOfReplicas.Store(len(results) == 0)
	if len(results) == 0 {
		return "", nil, errTooFewReplicas
	}
	return s.link.readTimed(sent, results[0])
}

// touchScript writes something that is soon forgotten.
var touchScript = newRepeatable("return redis.call('SET', KEYS[1], '', 'PX', 1000)")

// lookForReplicas finds out whether there are enough replicas again, if there were too few.
func (s *Store) lookForReplicas(ctx context.Context) {
	c, err := s.link.connected()
	if err != nil || !s.shortOfReplicas.Load() {
		return
	}
	results, err := replicated(ctx, c, touchScript, []string{s.names.probe()}, nil, s.options)
	if err == nil && len(results) > 0 {
		s.shortOfReplicas.Store(false)
	}
}

// redirectPause is for how long a script waits that was sent to a server which no longer has its records, or
// on a connection that broke.
const redirectPause = 20 * time.Millisecond

// replicated evaluates a script and waits for replicas, on a connection that nobody else uses meanwhile: what is waited
// for is what was written on the same connection. It returns nothing if fewer replicas have it.
func replicated(
	ctx context.Context, c rueidis.Client, script *rueidis.Lua, keys, args []string, o Options,
) ([]rueidis.RedisMessage, error) {
	type result struct {
		messages []rueidis.RedisMessage
		err      error
	}
	ended := make(chan result, 1)
	// Getting the connection does not heed the context.
	go func() {
		m, err := replicatedOnce(ctx, c, script, keys, args, o)
		for (redirected(err) || broken(err)) && ctx.Err() == nil {
			time.Sleep(redirectPause)
			m, err = replicatedOnce(ctx, c, script, keys, args, o)
		}
		ended <- result{m, err}
	}()
	select {
	case r := <-ended:
		return r.messages, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// broken reports whether no server has answered.
func broken(err error) bool {
	_, answered := rueidis.IsRedisErr(err)
	return err != nil && !answered && !rueidis.IsRedisNil(err)
}

// redirected reports whether a server answered that another one has the records.
func redirected(err error) bool {
	refused, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	_, moved := refused.IsMoved()
	_, ask := refused.IsAsk()
	return moved || ask || refused.IsTryAgain() || refused.IsClusterDown()
}

func replicatedOnce(
	ctx context.Context, c rueidis.Client, script *rueidis.Lua, keys, args []string, o Options,
) (messages []rueidis.RedisMessage, err error) {
	err = c.Dedicated(func(dedicated rueidis.DedicatedClient) error {
		answer, err := script.Exec(ctx, onlyCommands{Client: c, dedicated: dedicated}, keys, args).ToMessage()
		if err != nil {
			return err
		}
		n, err := dedicated.Do(ctx, dedicated.B().Wait().Numreplicas(int64(o.Replicas)).
			Timeout(o.ReplicaTimeout.Milliseconds()).Build()).AsInt64()
		if err == nil && n >= int64(o.Replicas) {
			messages = []rueidis.RedisMessage{answer}
		}
		return err
	})
	return messages, err
}

// onlyCommands sends the commands of a client over one connection.
type onlyCommands struct {
	rueidis.Client
	dedicated rueidis.DedicatedClient
}

func (o onlyCommands) B() rueidis.Builder { return o.dedicated.B() }

func (o onlyCommands) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return o.dedicated.Do(ctx, cmd)
}
