// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
)

// weightsOf returns the weights file of a language.
func weightsOf(tb testing.TB, tag string) []byte {
	name := "languages/" + tag + ".model"
	if tag == "en" {
		name = "default.model"
	}
	file, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	return file
}

// heapInUse returns the size in bytes of what is in use on the heap.
func heapInUse() uint64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC() // a pool keeps what it has for one collection
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// loadedSize loads weights and returns the memory in bytes that the model takes.
func loadedSize(tb testing.TB, file []byte) int {
	before := heapInUse()
	m, err := model.Load(bytes.NewReader(file))
	if err != nil {
		tb.Fatal(err)
	}
	size := int(heapInUse()) - int(before)
	runtime.KeepAlive(m)
	return size
}

// BenchmarkLoadLanguages loads the model of each language and says how much memory it takes.
//
//	go test -run - -bench LoadLanguages -benchtime 10x ./engine/model
func BenchmarkLoadLanguages(b *testing.B) {
	for _, tag := range model.Languages() {
		b.Run(tag, func(b *testing.B) {
			file := weightsOf(b, tag)
			size := loadedSize(b, file)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := model.Load(bytes.NewReader(file)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(size), "heap-bytes/model")
		})
	}
}

// Hazard: a server that meets all languages needs far more memory than one that is for English alone.
func TestLanguagesAreSmall(t *testing.T) {
	const most = 2_300_000 // bytes for each language, on average
	tags := model.Languages()[1:]
	if len(tags) == 0 {
		t.Skip("this build is for English alone")
	}
	total := 0
	for _, tag := range tags {
		total += loadedSize(t, weightsOf(t, tag))
	}
	if mean := total / len(tags); mean > most {
		t.Errorf("a model takes %d bytes on average, want at most %d", mean, most)
	}
}

// BenchmarkResident says how much more memory the process has once the models of all languages have read a text than
// after that of English: all in all, and without pages of the program file, which the system drops when it needs
// memory. It works on Linux, and once in a process:
//
//	go test -run - -bench Resident -benchtime 1x ./engine/model
func BenchmarkResident(b *testing.B) {
	read := func(tags ...string) (all, own float64) {
		for _, tag := range tags {
			m, err := model.ForLanguage(tag)
			if err != nil {
				b.Fatal(err)
			}
			m.Probabilities("one short text")
		}
		churn()
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			b.Skip("needs Linux")
		}
		for line := range strings.Lines(string(status)) {
			var kilobytes float64
			name, value, _ := strings.Cut(line, ":")
			if n, _ := fmt.Sscan(value, &kilobytes); n == 0 {
				continue
			}
			switch name {
			case "VmRSS":
				all = kilobytes * 1024
			case "RssAnon":
				own = kilobytes * 1024
			}
		}
		return all, own
	}
	all, own := read("en")
	for b.Loop() {
		allAfter, ownAfter := read(model.Languages()...)
		b.ReportMetric((allAfter-all)/1e6, "MB")
		b.ReportMetric((ownAfter-own)/1e6, "MB-without-file")
		b.ReportMetric(own/1e6, "MB-English")
	}
}

// churn allocates and drops as a server does, so that the heap has the size that it has in a server. It leaves the
// garbage collector time, which on a busy machine would come too late.
func churn() {
	kept := make([][]byte, 64)
	for i := range 1 << 14 {
		kept[i%len(kept)] = make([]byte, 16<<10)
		if i%len(kept) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	runtime.KeepAlive(kept)
}
