// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-moderation/caddy-moderation/storage"
)

// bulk is a connection of its own for much work that nobody waits for: it keeps the service's commands out of its
// queue, and its commands may take long.
type bulk struct {
	shell  *Store
	client rueidis.Client
	names  names
}

// bulkTimeout is how long a server may take to answer.
const bulkTimeout = 30 * time.Second

// bulkOptions are those of a client for much work.
func (s *Store) bulkOptions() rueidis.ClientOption {
	o := s.clientOptions()
	o.PipelineMultiplex = -1 // one connection
	o.ConnWriteTimeout = bulkTimeout
	o.OnInvalidations, o.DisableCache = nil, true
	return o
}

// newBulk connects.
func newBulk(shell *Store) (*bulk, error) {
	client, err := rueidis.NewClient(shell.bulkOptions())
	if err != nil {
		if client != nil {
			client.Close()
		}
		return nil, mapError(err)
	}
	return &bulk{shell: shell, client: client, names: shell.names}, nil
}

// track connects to a master and has it tell which names change: changed is called with them, with nil when that is not
// known any more.
func (b *bulk) track(address string, changed func([]rueidis.RedisMessage)) (rueidis.Client, error) {
	o := b.shell.bulkOptions()
	if b.shell.options.Topology != Standalone {
		o.InitAddress, o.ForceSingleClient, o.Sentinel = []string{address}, true, rueidis.SentinelOption{}
	}
	o.DisableCache, o.OnInvalidations, o.CacheSizeEachConn = false, changed, 1<<20
	o.ClientTrackingOptions = []string{"PREFIX", b.names.prefix, "BCAST"}
	o.DisableRetry = true
	client, err := rueidis.NewClient(o)
	if err == nil {
		return client, nil
	}
	if client != nil {
		client.Close()
	}
	if errors.Is(err, rueidis.ErrNoCache) {
		return nil, fmt.Errorf("%w: a backup must be told which records change meanwhile, which the server or the user's "+
			"permissions do not allow (client tracking)", storage.ErrUnavailable)
	}
	return nil, mapError(err)
}

// newShell returns a store that is connected to nothing, for its options.
func newShell(o Options) (*Store, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("redis storage: %w", err)
	}
	return &Store{options: o, logger: o.Logger, names: newNames(o.Prefix), link: newLink(o)}, nil
}

func (b *bulk) close() { b.client.Close() }

// many runs commands, in pipelines, and returns their answers. An answer may be nil.
func (b *bulk) many(ctx context.Context, cmds ...rueidis.Completed) ([]rueidis.RedisMessage, error) {
	if len(cmds) == 0 {
		return nil, nil
	}
	answers := make([]rueidis.RedisMessage, len(cmds))
	for i, result := range b.client.DoMulti(ctx, cmds...) {
		m, err := result.ToMessage()
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, b.failed(ctx, err)
		}
		answers[i] = m
	}
	return answers, nil
}

// do runs a command.
func (b *bulk) do(ctx context.Context, cmd rueidis.Completed) (rueidis.RedisMessage, error) {
	answers, err := b.many(ctx, cmd)
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	return answers[0], nil
}

// failed maps an error.
func (b *bulk) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return mapError(err)
}

// masters returns a client for each master, by its address.
func (b *bulk) masters(ctx context.Context) (map[string]rueidis.Client, error) {
	nodes := b.client.Nodes()
	for address, node := range nodes {
		is, err := b.shell.hello(ctx, node)
		if err != nil {
			return nil, b.failed(ctx, err)
		}
		if is.role != "master" {
			delete(nodes, address)
		}
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%w: there is no master", storage.ErrUnavailable)
	}
	return nodes, nil
}

// scan calls each with the names in the whole database that match a pattern, some at a time. A name may come twice.
func (b *bulk) scan(ctx context.Context, pattern string, each func(names []string) (more bool, err error)) error {
	masters, err := b.masters(ctx)
	if err != nil {
		return err
	}
	for _, node := range masters {
		for cursor := uint64(0); ; {
			entry, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(2000).Build()).AsScanEntry()
			if err != nil {
				return b.failed(ctx, err)
			}
			if len(entry.Elements) > 0 {
				if more, err := each(entry.Elements); err != nil || !more {
					return err
				}
			}
			if cursor = entry.Cursor; cursor == 0 {
				break
			}
		}
	}
	return nil
}

// pattern returns a pattern of names that begin with the prefix, which may hold no character that means something in a
// pattern.
func (n names) pattern(rest string) string { return n.prefix + rest }

// The kinds of names.
type nameKind int

const (
	nameOfOther nameKind = iota
	nameOfOwner
	nameOfKey
	nameOfDay
	nameOfStore
	nameOfDocument
)

// kindOf says what a name is about: an account, the hash of a key, a day of feedback, or a document (its collection, a
// zero byte and its key). Names of what is only there while something is done are others.
func (n names) kindOf(name string) (kind nameKind, of string) {
	rest, ok := strings.CutPrefix(name, n.prefix)
	if !ok {
		return nameOfOther, ""
	}
	if digits, ok := strings.CutPrefix(rest, "key:"); ok {
		return nameOfKey, digits
	}
	if rest == "store" {
		return nameOfStore, ""
	}
	id, table, ok := strings.Cut(rest, "}:")
	if !ok {
		return nameOfOther, ""
	}
	if owner, ok := strings.CutPrefix(id, "{a:"); ok {
		switch table {
		case accountTable, keysTable, usedTable, countsTable, detailsTable, boundsTable:
			return nameOfOwner, owner
		}
	}
	if collection, ok := strings.CutPrefix(id, "{d:"); ok {
		if key, ok := strings.CutPrefix(table, "doc:"); ok {
			return nameOfDocument, collection + "\x00" + key
		}
	}
	if day, ok := strings.CutPrefix(id, "{f:"); ok && (table == "records" || table == "order") {
		return nameOfDay, day
	}
	return nameOfOther, ""
}
