// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/nodes"
	"github.com/caddy-moderation/caddy-moderation/storage"
)

const (
	// keepUpPatience is how long it may take to write statistics and to list the node, and leavePatience how long when
	// the store closes.
	keepUpPatience = 20 * time.Second
	leavePatience  = 3 * time.Second
)

// keepUp writes the statistics and lists this process as a node from time to time until the store closes. A process
// that is killed loses the statistics since the last time.
func (s *pooledStore) keepUp() {
	ticker := time.NewTicker(nodes.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.closed:
			return
		case <-s.introduced:
		case <-ticker.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), keepUpPatience)
		err := s.statistics.Flush(ctx)
		if node := s.node.Load(); node != nil {
			err = errors.Join(err, nodes.List{Store: s.service}.Add(ctx, *node, s.now()))
		}
		cancel()
		// The log has it already if the store is unavailable.
		if err != nil && s.Health() == nil {
			s.pool.logger.Warn("the statistics, or this node in the list of nodes, could not be written; it is tried again",
				zap.Error(err))
		}
	}
}

// now returns the time by the clock of the store, if it has one.
func (s *pooledStore) now() time.Time {
	if clock, ok := s.Store.(interface{ Now() time.Time }); ok {
		return clock.Now()
	}
	return time.Now()
}

// introduce says what this process is.
func (s *pooledStore) introduce(program, model string) {
	node := nodes.Node{ID: rand.Text(), Program: program, Model: model, Configured: s.now().UTC()}
	if before := s.node.Load(); before != nil {
		node.ID = before.ID
	}
	node.Name, _ = os.Hostname() // without a name there is still the id
	s.node.Store(&node)
	select {
	case s.introduced <- struct{}{}:
	default:
	}
}

// takeLeave writes the statistics and takes this process from the list before the store closes.
func (s *pooledStore) takeLeave() {
	ctx, cancel := context.WithTimeout(context.Background(), leavePatience)
	defer cancel()
	err := s.statistics.Flush(ctx)
	if node := s.node.Swap(nil); node != nil {
		err = errors.Join(err, nodes.List{Store: s.service}.Remove(ctx, node.ID))
	}
	// A store that was left by a migration takes nothing any more.
	if err != nil && !errors.Is(err, storage.ErrReadOnly) {
		s.pool.logger.Warn("the last statistics could not be written, or this node stays in the list of nodes", zap.Error(err))
	}
}

// Nodes returns the processes that use the store, or have in the last day.
func (s *Services) Nodes(ctx context.Context) ([]nodes.Node, error) {
	return nodes.List{Store: s.Store}.All(ctx, s.pooled.now())
}

// Node returns the id of this process in that list.
func (s *Services) Node() string {
	if node := s.pooled.node.Load(); node != nil {
		return node.ID
	}
	return ""
}
