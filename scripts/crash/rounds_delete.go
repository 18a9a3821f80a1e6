// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// eraseTimeout is how long a deleted text may be in the files of the database.
const eraseTimeout = 60 * time.Second

// killDelete deletes feedback while all clients work, and kills the server as soon as that is acknowledged. What was
// deleted must be gone, everything else must be there, and soon no file may hold a deleted text.
func killDelete(ctx context.Context, w *world, _ *rig) error {
	if err := w.begin(ctx, everybody); err != nil {
		return err
	}
	// Random, so that no compression hides it.
	text := w.letters(300)
	if err := w.correct(text); err != nil {
		return err
	}
	if where := w.filesWith(text); len(where) == 0 {
		return errors.New("a text that was stored is in no file of the database")
	}
	hash := sha256.Sum256([]byte(text))
	file := filepath.Join(w.folder, "text")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	before := time.Now()
	out, err := w.command(ctx, "feedback", "delete", "--before", before.UTC().Format(time.RFC3339Nano), "--yes")
	w.kill(true)
	if err != nil {
		return err
	}
	w.rest()
	w.note("%s", strings.TrimSpace(out))
	w.ledger.with(func() {
		for token, f := range w.ledger.feedback {
			switch {
			case f.Acked && f.At.Before(before):
				delete(w.ledger.feedback, token)
			case f.Acked:
				f.Acked = false // it may have been stored before, and answered after that instant
			}
		}
	})
	if err := w.compare(ctx); err != nil {
		return err
	}
	for deadline := time.Now().Add(eraseTimeout); ; {
		where := w.filesWith(text)
		if len(where) == 0 {
			break
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			w.violate("a deleted text is still in %s", strings.Join(where, ", "))
			break
		}
		pause(ctx, 100*time.Millisecond)
	}
	// Repeated, it finds nothing.
	if out, err = w.command(ctx, "feedback", "delete", "--text-file", file, "--yes"); err != nil ||
		!strings.HasPrefix(out, "0 records") {
		w.violate("the deletion of a text (%x) that is deleted says %q, %v", hash[:4], out, err)
	}
	return w.conclude(ctx)
}

// correct stores a record of feedback on a text.
func (w *world) correct(text string) error {
	const token = "to be deleted"
	body, err := json.Marshal(map[string]any{
		"comment": map[string]string{"text": text}, "clientToken": token,
		"attributeScores": map[string]any{"TOXICITY": map[string]any{
			"summaryScore": map[string]any{"value": 0.1, "type": "PROBABILITY"},
		}},
	})
	if err != nil {
		return err
	}
	status, answer, err := w.do(http.MethodPost, "http://"+w.site+"/v1alpha1/comments:suggestscore", w.secret,
		"application/json", body)
	if err != nil || status != 200 {
		return errors.New("feedback is not taken: " + brief(status, answer, err))
	}
	w.ledger.with(func() {
		w.ledger.feedback[token] = &suggestion{
			Account: apiAccount, Sum: sha256.Sum256([]byte(text)), Acked: true, At: time.Now(), Status: status,
		}
	})
	return nil
}

// filesWith returns the files of the database that hold a text.
func (w *world) filesWith(text string) (found []string) {
	_ = filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil // removed meanwhile
		}
		if content, err := os.ReadFile(path); err == nil && bytes.Contains(content, []byte(text)) {
			found = append(found, filepath.Base(path))
		}
		return nil
	})
	return found
}
