// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	stdjson "encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/caddymod/app"
)

// migrationOrder is the body of a request that begins a migration. The storages are those of a configuration, with
// their member "module".
type migrationOrder struct {
	From jsontext.Value `json:"from"`
	To   jsontext.Value `json:"to"`
	// LeaveOutDamaged leaves damaged records out.
	LeaveOutDamaged bool `json:"leave_out_damaged,omitempty"`
}

// endless lifts the deadline for reading a request: Caddy's, of 10 s, would end an answer that takes longer.
func endless(w http.ResponseWriter) { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }

// tellEvery is the shortest time between two lines about the same phase.
const tellEvery = 100 * time.Millisecond

// migrate handles POST /moderation/migrate. The answer is JSON Lines: how far the migration is, and at last how it
// ended. The migration ends when the caller leaves.
func (a *API) migrate(w http.ResponseWriter, r *http.Request) error {
	var order migrationOrder
	if err := decode(w, r, &order); err != nil {
		return err
	}
	if len(order.From) == 0 || len(order.To) == 0 {
		return refusal(http.StatusBadRequest, "from and to are required: the storages as in a configuration")
	}
	running, err := a.running()
	if err != nil {
		return err
	}
	if services := running.TryAcquire(); services != nil {
		// Before it begins: then nothing can be written any more.
		record(r, services, audit.Entry{Action: "migration.begin"})
		services.Release()
	}
	endless(w)
	out := &lines{body: &lazyBody{w: w, contentType: "application/jsonl"}}
	err = running.Migrate(r.Context(), app.MigrateOptions{
		From: stdjson.RawMessage(order.From), To: stdjson.RawMessage(order.To),
		LeaveOutDamaged: order.LeaveOutDamaged, Tell: out.tell,
	})
	if err != nil && !out.body.opened {
		return a.migrationFailed(err)
	}
	return nil
}

// lines writes the states of a migration.
type lines struct {
	mu   sync.Mutex
	body *lazyBody
	last app.Migration
	at   time.Time
}

func (l *lines) tell(state app.Migration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.body.opened && state.Phase == l.last.Phase && time.Since(l.at) < tellEvery {
		return
	}
	l.last, l.at = state, time.Now()
	// An error here is that the caller has left, which ends the migration.
	_ = newEncoder(l.body).Encode(state)
	_ = http.NewResponseController(l.body.w).Flush()
}

// showMigration handles GET /moderation/migrate.
func (a *API) showMigration(w http.ResponseWriter, r *http.Request) error {
	running, err := a.running()
	if err != nil {
		return err
	}
	state, found, err := running.Migration(r.Context())
	if err != nil {
		return a.failed(err)
	}
	if !found {
		return refusal(http.StatusNotFound, "there is no migration")
	}
	return encode(w, r, http.StatusOK, state)
}

// undoMigration handles DELETE /moderation/migrate.
func (a *API) undoMigration(w http.ResponseWriter, r *http.Request) error {
	running, err := a.running()
	if err != nil {
		return err
	}
	state, err := running.UndoMigration(r.Context())
	if err != nil {
		return a.migrationFailed(err)
	}
	if services := running.TryAcquire(); services != nil {
		record(r, services, audit.Entry{Action: "migration.undo"})
		services.Release()
	}
	return encode(w, r, http.StatusOK, state)
}

// migrationFailed returns the answer to an error of a migration. Its text is for the operator.
func (a *API) migrationFailed(err error) error {
	if errors.Is(err, app.ErrMigration) {
		return refusal(http.StatusConflict, "%w", err)
	}
	return a.failed(err)
}
