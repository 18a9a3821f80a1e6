// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
	"github.com/caddy-moderation/caddy-moderation/storage/redis/redistest"
)

// TestLostAnswerOfADocument guards against a change that is refused because it was made already: the answer was lost,
// and the condition does not hold the second time. One of deletions alone leaves nothing that could tell.
func TestLostAnswerOfADocument(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	proxy := redistest.RunProxy(t, server.Addr())
	s := openAt(t, proxy.Addr(), withTimeout(20*time.Second))
	change := func(c documents.Change) {
		t.Helper()
		if err := s.ChangeDocuments(background, "shelf", c); err != nil {
			t.Fatalf("ChangeDocuments: got the error %v, want none", err)
		}
	}
	change(documents.Change{Key: "a", Value: []byte("1"), If: documents.Absent()})
	for step, next := range []func(documents.Document) documents.Change{
		func(d documents.Document) documents.Change {
			return documents.Change{Key: "a", Value: []byte("2"), If: d.Unchanged()}
		},
		func(d documents.Document) documents.Change {
			return documents.Change{Key: "a", Delete: true, If: d.Unchanged()}
		},
		func(documents.Document) documents.Change {
			return documents.Change{Key: "a", Value: []byte("3"), If: documents.Absent()}
		},
	} {
		found, err := s.Documents(background, "shelf", "a")
		must(t, err)
		proxy.LoseAnswers(1, "{d:shelf}:made:")
		change(next(found[0]))
		if is, err := s.Documents(background, "shelf", "a"); err != nil || is[0].Revision == found[0].Revision {
			t.Errorf("step %d: got %+v, %v; want it changed", step, is, err)
		}
	}
}

// TestDamagedDocument guards against a wrong value, and against a listing that ends because of one.
func TestDamagedDocument(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	s := openAt(t, server.Addr())
	for _, key := range []string{"a", "b", "c"} {
		must(t, s.ChangeDocuments(background, "shelf", documents.Change{Key: key, Value: []byte(key)}))
	}
	// The value of another document, whole as it is.
	text, err := server.Text("GET", s.names.document("shelf", "a"))
	must(t, err)
	_, err = server.Do("SET", s.names.document("shelf", "b"), text)
	must(t, err)
	if _, err := s.Documents(background, "shelf", "b"); !errors.Is(err, storage.ErrDamaged) {
		t.Errorf("Documents: got the error %v, want %v", err, storage.ErrDamaged)
	}
	var got []string
	for d, err := range s.ListDocuments(background, "shelf", documents.Range{}) {
		switch {
		case errors.Is(err, storage.ErrDamaged):
			got = append(got, "damaged")
		case err != nil:
			t.Fatal(err)
		default:
			got = append(got, d.Key)
		}
	}
	if strings.Join(got, " ") != "a damaged c" {
		t.Errorf("the listing: got %v, want a, damaged, c", got)
	}
}

// TestBackupOfChangingDocuments backs up while documents are changed and deleted: what was acknowledged before is
// there, and a change of two documents is there whole.
func TestBackupOfChangingDocuments(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t, redistest.Options{})
	s := openAt(t, server.Addr(), withTimeout(20*time.Second))
	for i := range 300 {
		key := string(rune('a'+i%26)) + strings.Repeat("x", i/26)
		must(t, s.ChangeDocuments(background, "shelf", documents.Change{Key: key, Value: []byte("before")}))
	}
	must(t, s.ChangeDocuments(background, "shelf", documents.Change{Key: "gone", Value: []byte("before")}))
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			value := []byte{byte(i), byte(i >> 8)}
			err := s.ChangeDocuments(background, "shelf",
				documents.Change{Key: "one", Value: value}, documents.Change{Key: "two", Value: value},
				documents.Change{Key: "gone", Delete: true})
			if err != nil {
				t.Errorf("ChangeDocuments: got the error %v, want none", err)
				return
			}
		}
	}()
	eventually(t, "documents change", func() bool {
		found, err := s.Documents(background, "shelf", "one")
		return err == nil && found[0].Revision != 0
	})
	var backup bytes.Buffer
	err := s.Backup(context.Background(), &backup)
	close(stop)
	<-ended
	must(t, err)
	kept := map[string]string{}
	for item, err := range contents.Read(&backup) {
		must(t, err)
		switch {
		case item.Document != nil:
			kept[item.Document.Key] = string(item.Document.Value)
		case item.Forget != nil && item.Forget.Document != "":
			delete(kept, item.Forget.Document)
		}
	}
	if _, there := kept["gone"]; there || len(kept) != 302 || kept["one"] != kept["two"] {
		t.Errorf("the backup has %d documents, one is %q, two is %q, gone is there: %t; want 302, equal ones, false",
			len(kept), kept["one"], kept["two"], there)
	}
}
