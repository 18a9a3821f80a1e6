// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package train

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// Mine returns the harmless examples that a fitted model finds most harmful: for each category, the share, from 0 to 1,
// with the largest logits. They are the hard negatives that the next model learns most from (bootstrapping, Sung and
// Poggio 1998).
func Mine(fitted *Fitted, examples []Example, share float64) ([]Example, error) {
	file, err := fitted.File()
	if err != nil {
		return nil, err
	}
	m, err := model.Load(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("loading the weights: %w", err)
	}
	logits := make([][categories]float64, len(examples))
	inParallel(len(examples), func(i int) {
		l := m.Logits(examples[i].Text)
		logits[i] = [categories]float64(l.Large[:categories])
	})
	chosen := make([]bool, len(examples))
	order := make([]int, len(examples))
	for h := range categories {
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(logits[b][h], logits[a][h]) })
		for _, i := range order[:int(math.Ceil(share*float64(len(order))))] {
			chosen[i] = true
		}
	}
	var hard []Example
	for i, e := range examples {
		if chosen[i] {
			e.Hard = true
			hard = append(hard, e)
		}
	}
	return hard, nil
}

// inParallel calls work for each number from 0 to n, which is exclusive, on all processors.
func inParallel(n int, work func(i int)) {
	jobs := runtime.GOMAXPROCS(0)
	var wait sync.WaitGroup
	for job := range jobs {
		wait.Go(func() {
			for i := job; i < n; i += jobs {
				work(i)
			}
		})
	}
	wait.Wait()
}
