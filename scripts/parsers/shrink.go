// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
)

// simplify leaves out the steps of a recipe without which the request still gets through.
func (r *rig) simplify(f *finding) {
	for again := f.sample.generated != nil; again; {
		again = false
		for i := range f.sample.generated.steps {
			fewer := *f.sample.generated
			fewer.steps = slices.Delete(slices.Clone(fewer.steps), i, i+1)
			if got := r.retry(f, fewer.sample(f.sample.name)); got != nil {
				*f, again = *got, true
				break
			}
		}
	}
}

// retry tries a simpler sample. It returns nil if that is no bypass any more, or not for all of the parsers.
func (r *rig) retry(f *finding, s *sample) *finding {
	if s.vile.isFile() || !f.guard.passed(f.guard.check(s.vile)) {
		return nil
	}
	got := r.verify(f.guard, s, f.parsers)
	if got == nil || len(got.parsers) < len(f.parsers) {
		return nil
	}
	return got
}

// shrink leaves out lines of the header and parts of the body as long as the request still gets through, with n tries
// at most.
func (r *rig) shrink(f *finding, n int) {
	try := func(q *request) bool {
		if n--; n < 0 {
			return false
		}
		s := &sample{name: f.sample.name, class: f.sample.class, vile: q, fine: q.replace(vile, fine)}
		got := r.retry(f, s)
		if got != nil {
			*f = *got
		}
		return got != nil
	}
	for i := 0; i < len(f.sample.vile.header); {
		q := *f.sample.vile
		q.header = slices.Delete(slices.Clone(q.header), i, i+1)
		if !try(&q) {
			i++
		}
	}
	for size := len(f.sample.vile.body) / 2; size > 0 && n > 0; size /= 2 {
		for at := 0; at < len(f.sample.vile.body); {
			q := *f.sample.vile
			q.body = slices.Delete(slices.Clone(q.body), at, min(at+size, len(q.body)))
			if !try(&q) {
				at += size
			}
		}
	}
}
