// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train_test

import (
	"reflect"
	"testing"

	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

// TestGibberish guards against gibberish that is made of harm, which would teach that harm in Base64 is harmless, and
// against an endless loop or a panic where there is nothing to make it of.
func TestGibberish(t *testing.T) {
	t.Parallel()
	rows := []train.Example{
		violenceOrNot("wir fahren morgen mit den Kindern an den See", false),
		violenceOrNot("ich bringe dich um, du elender Hund", true),
	}
	made := train.Gibberish(rows, 1)
	if !reflect.DeepEqual(made, train.Gibberish(rows, 1)) {
		t.Error("the same seed made different texts")
	}
	alone := train.Gibberish(rows[:1], 1)
	if len(made) == 0 || !reflect.DeepEqual(made, alone) {
		t.Errorf("%d texts, some of them made of harm", len(made))
	}
	for _, e := range made {
		if !e.Harmless() || e.Text == "" {
			t.Errorf("got %+v", e)
		}
	}
	if made := train.Gibberish(rows[1:], 1); made != nil {
		t.Errorf("%d texts are made of harm", len(made))
	}
}

// violenceOrNot is a row of the corpus that is violence or harmless.
func violenceOrNot(text string, harmful bool) train.Example {
	e := train.Example{Text: text, Source: "a01", InCorpus: true}
	for h := range e.Labels {
		e.Labels[h] = train.Label{Weight: 1}
	}
	if harmful {
		e.Labels[4].Value = 1
	}
	return e
}
