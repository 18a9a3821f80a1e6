// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package nodes keeps a list of the processes that use one store, for people who want to see whether all of them are
// there and run the same versions. Nothing else depends on it.
package nodes

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
)

// collection has a document for each node, under its id.
const collection = "nodes"

const (
	// Interval is how often a node says that it is there.
	Interval = 30 * time.Second
	// Missing is after how long without that it is taken for gone.
	Missing = 3 * Interval
	// keep is for how long a node that is gone is listed, and maxNodes how many nodes are.
	keep     = 24 * time.Hour
	maxNodes = 1000
)

// Node is a process.
type Node struct {
	// ID is random and another one after each start of the process: 1 to 64 characters of a-z, A-Z and 0-9. Required.
	ID string `json:"id"`
	// Name is the host's.
	Name string `json:"name"`
	// Program and Model are the versions of the service and of its classifier.
	Program string `json:"program"`
	Model   string `json:"model"`
	// Configured is when the configuration that it runs was loaded.
	Configured time.Time `json:"configured"`
	// Seen is when it last said that it is there. It is set by the list.
	Seen time.Time `json:"seen"`
}

// Gone reports whether a node is taken for gone.
func (n *Node) Gone(now time.Time) bool { return now.Sub(n.Seen) > Missing }

// List is the list of the nodes of a store. Its methods can be called at the same time.
type List struct {
	// Store keeps the documents. Required.
	Store documents.Store
}

// Add says that a node is there.
func (l List) Add(ctx context.Context, node Node, now time.Time) error {
	node.Seen = now.UTC()
	value, err := json.Marshal(node)
	if err != nil {
		return err
	}
	return l.Store.ChangeDocuments(ctx, collection, documents.Change{Key: node.ID, Value: value})
}

// Remove takes a node that ends from the list.
func (l List) Remove(ctx context.Context, id string) error {
	return l.Store.ChangeDocuments(ctx, collection, documents.Change{Key: id, Delete: true})
}

// All returns the nodes that were there within the last day, sorted by name, those that are there now first.
func (l List) All(ctx context.Context, now time.Time) (all []Node, err error) {
	for d, err := range l.Store.ListDocuments(ctx, collection, documents.Range{}) {
		if err != nil {
			return nil, err
		}
		var node Node
		if json.Unmarshal(d.Value, &node) != nil || node.ID != d.Key || now.Sub(node.Seen) > keep {
			continue
		}
		if all = append(all, node); len(all) == maxNodes {
			break
		}
	}
	slices.SortFunc(all, func(a, b Node) int {
		switch goneA, goneB := a.Gone(now), b.Gone(now); {
		case goneA && !goneB:
			return 1
		case goneB && !goneA:
			return -1
		}
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// Trim forgets the nodes that have been gone for more than a day.
func (l List) Trim(ctx context.Context, now time.Time) error {
	var changes []documents.Change
	for d, err := range l.Store.ListDocuments(ctx, collection, documents.Range{}) {
		if err != nil {
			return err
		}
		var node Node
		if json.Unmarshal(d.Value, &node) == nil && now.Sub(node.Seen) <= keep {
			continue
		}
		// One that has come back meanwhile stays.
		changes = append(changes, documents.Change{Key: d.Key, Delete: true, If: d.Unchanged()})
		if len(changes) == documents.MaxChanges {
			break // the rest is done next time
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return l.Store.ChangeDocuments(ctx, collection, changes...)
}
