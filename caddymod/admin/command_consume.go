// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/spf13/cobra"
)

// consume prints what a consumer has not taken yet, or appends it to a file. Each batch is acknowledged when it is
// written, and in a file when it is on the disk: a record may be written twice if this is interrupted, but none is
// lost.
func (c *cli) consume(command *cobra.Command, name, file string, fromStart bool) (err error) {
	if err := checkConsumer(name); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt)
	defer stop()
	client, path := c.client(), "/moderation/feedback/consumers/"+name
	if fromStart {
		if err := client.call(ctx, http.MethodDelete, path, nil, nil); err != nil {
			return err
		}
	}
	keep := func(lines []byte) error {
		_, err := command.OutOrStdout().Write(lines)
		return err
	}
	if file != "" && file != "-" {
		out, err := c.openAppend(file)
		if err != nil {
			return err
		}
		defer out.Close()
		keep = func(lines []byte) error {
			if _, err := out.Write(lines); err != nil {
				return err
			}
			return out.Sync()
		}
	}
	records, damaged := 0, 0
	for {
		taken, err := takeBatch(ctx, client, path, keep)
		if err != nil {
			return err
		}
		if taken == nil {
			break
		}
		records += taken.Taken
		damaged += taken.Damaged
	}
	if file != "" && file != "-" {
		note(command, "Appended %s to %s.", countRecords(int64(records)), file)
	}
	if damaged > 0 {
		return fmt.Errorf("%s damaged and left out", areRecords(int64(damaged)))
	}
	return nil
}

// takeBatch keeps the consumer's next batch and acknowledges it; nil if there are no more records.
func takeBatch(ctx context.Context, client *client, path string, keep func([]byte) error) (*takenFeedback, error) {
	answer, err := client.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	var lines bytes.Buffer
	if _, err := io.Copy(&lines, answer); err != nil {
		return nil, client.brokenOff(err)
	}
	batch := answer.response.Header.Get(batchHeader)
	if batch == "" {
		return nil, nil
	}
	if err := keep(lines.Bytes()); err != nil {
		return nil, err
	}
	taken := new(takenFeedback)
	return taken, client.call(ctx, http.MethodPost, path, batchTaken{Batch: batch}, taken)
}

// openAppend opens a file for what is added at its end. A new one is readable by its owner alone, and its name survives
// a loss of power.
func (c *cli) openAppend(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := c.syncDir(filepath.Dir(name)); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}
