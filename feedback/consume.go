// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package feedback

import "context"

// Consumers is a store that remembers, for each of any number of consumers, which records it has taken. A consumer is
// known by its name, which is 1 to 64 letters, digits, '.', '_' and '-'. It begins with all records that are kept.
//
// A consumer takes records day by day, by the UTC day of their time, and within a day in the order in which they were
// kept. A record that is kept with an earlier time is taken nevertheless. Deleted records are not taken any more.
type Consumers interface {
	// NextFeedback returns up to n records that the consumer has not acknowledged. It returns the same records again
	// until they are acknowledged, so that none is lost when the consumer dies with them. One consumer is to be used
	// by one caller at a time: two would get the same records. An empty batch says that there are no more for now.
	NextFeedback(ctx context.Context, consumer string, n int) (Batch, error)
	// ForgetConsumer forgets what a consumer has taken. It is no error if it is not known.
	ForgetConsumer(ctx context.Context, consumer string) error
}

// Batch is what a consumer takes at once.
type Batch struct {
	Records []Record
	// Damaged is how many damaged records are acknowledged together with the others. They stay in the store.
	Damaged int
	// Acknowledge says that the consumer has taken the batch. It may be called again after an error. It is nil if the
	// batch is empty.
	Acknowledge func(ctx context.Context) error
}
