// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"os"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/storage/badger/disk"
)

// spareCount is how many descriptors it takes to start a process: three pipes, one for its status, and a handle on it.
const spareCount = 12

// SpareDescriptors holds file descriptors that are released for the moment in which a process is started. Otherwise a
// server that uses all of its descriptors for connections could not restart its database. The zero value holds none
// until [SpareDescriptors.Fill].
type SpareDescriptors struct {
	mu     sync.Mutex
	wanted bool
	files  []*os.File
}

// Fill takes the descriptors. An error says that some could not be had; they are taken after the next start.
func (d *SpareDescriptors) Fill() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = true
	return d.fill()
}

func (d *SpareDescriptors) fill() error {
	for len(d.files) < spareCount {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		d.files = append(d.files, f)
	}
	return nil
}

// Close releases the descriptors.
func (d *SpareDescriptors) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = false
	d.empty()
	return nil
}

func (d *SpareDescriptors) empty() {
	for _, f := range d.files {
		_ = f.Close()
	}
	d.files = nil
}

// Start is [Start] with the descriptors released.
func (d *SpareDescriptors) Start(ctx context.Context, o disk.Options) (*Client, error) {
	return launcher{spare: d}.start(ctx, o)
}

// releaseFor calls use with the descriptors released, and takes them again. Other goroutines may take them in
// between: spare descriptors are a chance, not a promise. On a nil receiver it only calls use.
func (d *SpareDescriptors) releaseFor(use func() error) error {
	if d == nil {
		return use()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.empty()
	err := use()
	if d.wanted {
		// Those that cannot be had now are taken after the next start.
		_ = d.fill()
	}
	return err
}
