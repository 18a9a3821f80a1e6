// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/audit"
	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
)

// batchSize is how many records a consumer is given at once.
const batchSize = 500

// batchHeader names a batch: the client sends it back to say that it has the records.
const batchHeader = "Moderation-Batch"

// errNoConsumers refuses consumers where the store does not know them.
var errNoConsumers = errors.New("this storage knows no consumers; that of redis does. Export without one")

// consumers returns the store that remembers what consumers have taken.
func (a *API) consumers(r *http.Request) (known feedback.Consumers, release func(), err error) {
	services, err := a.services(r.Context())
	if err != nil {
		return nil, nil, err
	}
	known, ok := services.Consumers()
	if !ok {
		services.Release()
		return nil, nil, refusal(http.StatusNotImplemented, "%w", errNoConsumers)
	}
	return known, services.Release, nil
}

// nextFeedback handles GET /moderation/feedback/consumers/{name}: the records that the consumer has not acknowledged,
// as JSON Lines, some of them at a time. A header names the batch. Without more records the answer is empty.
func (a *API) nextFeedback(w http.ResponseWriter, r *http.Request) error {
	known, release, err := a.consumers(r)
	if err != nil {
		return err
	}
	defer release()
	batch, err := known.NextFeedback(r.Context(), r.PathValue("name"), batchSize)
	if err != nil {
		return a.failed(err)
	}
	if batch.Acknowledge != nil {
		w.Header().Set(batchHeader, batchName(&batch))
	}
	w.Header().Set("Content-Type", "application/jsonl")
	if batch.Damaged > 0 {
		a.logger.Error("records of feedback are damaged and left out of an export", zap.Int("records", batch.Damaged))
	}
	encoder := newEncoder(w)
	for _, record := range batch.Records {
		if err := encoder.Encode(record); err != nil {
			// The batch is given again: it is not acknowledged.
			panic(http.ErrAbortHandler)
		}
	}
	return nil
}

// takeFeedback handles POST /moderation/feedback/consumers/{name}: the consumer has the batch that it names.
func (a *API) takeFeedback(w http.ResponseWriter, r *http.Request) error {
	var taken batchTaken
	if err := decode(w, r, &taken); err != nil {
		return err
	}
	known, release, err := a.consumers(r)
	if err != nil {
		return err
	}
	defer release()
	// Until it is acknowledged, a consumer is given the same batch.
	batch, err := known.NextFeedback(r.Context(), r.PathValue("name"), batchSize)
	if err != nil {
		return a.failed(err)
	}
	if batch.Acknowledge == nil || batchName(&batch) != taken.Batch {
		return refusal(http.StatusConflict, "this is not the batch that the consumer has to acknowledge; "+
			"do several programs use its name?")
	}
	if err := batch.Acknowledge(r.Context()); err != nil {
		return a.failed(err)
	}
	return encode(w, r, http.StatusOK, takenFeedback{Taken: len(batch.Records), Damaged: batch.Damaged})
}

// forgetConsumer handles DELETE /moderation/feedback/consumers/{name}: the consumer begins again.
func (a *API) forgetConsumer(w http.ResponseWriter, r *http.Request) error {
	known, release, err := a.consumers(r)
	if err != nil {
		return err
	}
	defer release()
	if err := known.ForgetConsumer(r.Context(), r.PathValue("name")); err != nil {
		return a.failed(err)
	}
	if services, err := a.services(r.Context()); err == nil {
		record(r, services, audit.Entry{Action: "feedback.forget_consumer", Target: r.PathValue("name")})
		services.Release()
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// batchName names a batch by what is in it.
func batchName(batch *feedback.Batch) string {
	hash := sha256.New()
	for i := range batch.Records {
		_, _ = hash.Write([]byte(batch.Records[i].ID + "\n"))
	}
	_, _ = hash.Write([]byte{byte(batch.Damaged), byte(batch.Damaged >> 8)})
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// checkConsumer returns an error for what cannot be the name of a consumer: it becomes a part of a path.
func checkConsumer(name string) error {
	if err := quota.ValidateID(name); err != nil {
		return errors.New("--consumer: 1 to 64 letters, digits, '.', '_' and '-', the first a letter or a digit")
	}
	return nil
}
