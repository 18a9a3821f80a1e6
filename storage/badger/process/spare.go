// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"os"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// reserved is how many descriptors starting a process takes: three pipes, one more for its status, and a handle on it.
const spareCount = 12

// SpareDescriptors holds file descriptors that are given up for the moment in which a process is started. A server that uses all of its
// descriptors for connections could not start its database again otherwise. The zero value holds none until [SpareDescriptors.Fill].
type SpareDescriptors struct {
	mu     sync.Mutex
	wanted bool
	files  []*os.File
}

// Fill takes descriptors until the reserve is full. The error says that it is not: it is filled again after each start.
func (r *SpareDescriptors) Fill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = true
	return r.fill()
}

func (r *SpareDescriptors) fill() error {
	for len(r.files) < spareCount {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		r.files = append(r.files, f)
	}
	return nil
}

// Close gives the descriptors up.
func (r *SpareDescriptors) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = false
	r.empty()
	return nil
}

func (r *SpareDescriptors) empty() {
	for _, f := range r.files {
		_ = f.Close()
	}
	r.files = nil
}

// Start is [Start] with the descriptors of the reserve.
func (r *SpareDescriptors) Start(ctx context.Context, o disk.Options) (*Client, error) {
	return launcher{spare: r}.start(ctx, o)
}

// lend calls use with the descriptors free, and takes them again. Others may be faster with either: the reserve is a chance,
// not a promise. Without a reserve it only calls use.
func (r *SpareDescriptors) releaseFor(use func() error) error {
	if r == nil {
		return use()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.empty()
	err := use()
	if r.wanted {
		// What cannot be had now is had the next time.
		_ = r.fill()
	}
	return err
}
