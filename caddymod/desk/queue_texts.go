// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
)

// queueTextsFile holds the texts of the review queue, in the form of texts.json.
//
//go:embed texts_queue.json
var queueTextsFile []byte

// addQueueTexts adds the texts of the review queue.
func addQueueTexts(all map[string][len(languages)]string) {
	var more map[string][len(languages)]string
	if err := json.Unmarshal(queueTextsFile, &more); err != nil {
		panic(fmt.Sprintf("texts_queue.json: %v", err)) // a test reads it
	}
	maps.Copy(all, more)
}
