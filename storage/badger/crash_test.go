// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package badger_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/documents"
	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
)

// The test binary is its own victim: with crashDir set it writes into that directory until it is killed. CRASH_ROUNDS
// says how often that is done. Default: 6.
const (
	crashDir    = "CRASH_DIR"
	crashRound  = "CRASH_ROUND"
	crashRounds = "CRASH_ROUNDS"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		if err := victim(dir, os.Getenv(crashRound)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

var crashTime = time.Date(2026, 3, 15, 12, 0, 30, 0, time.UTC)

func crashCharge(account string) quota.Charge {
	return quota.Charge{Account: account, Key: "key_" + account, Requests: 1, Now: crashTime,
		Period: quota.PeriodOf(0, crashTime)}
}

// victim works until it is killed. It writes to its standard output what it is about to do and what was acknowledged.
// The lines are not buffered: everything that it wrote before it died is in the pipe.
func victim(dir, round string) error {
	ctx := context.Background()
	s, err := openAfterKill(dir)
	if err != nil {
		return err
	}
	failed := make(chan error)
	work := func(do func(i int) error) {
		go func() {
			for i := 0; ; i++ {
				if err := do(i); err != nil {
					failed <- err
				}
			}
		}()
	}
	for worker := range 12 {
		account := fmt.Sprintf("a%d", worker%3)
		outcome := quota.Outcome{Flagged: []string{"hate"}}
		if account == "a2" {
			outcome = quota.Outcome{Refund: true}
		}
		work(func(int) error {
			c := crashCharge(account)
			say("try", account)
			if _, _, err := s.Take(ctx, c); err != nil {
				return err
			}
			if err := s.Settle(ctx, c, outcome); err != nil {
				return err
			}
			say("count", account)
			return nil
		})
	}
	work(func(i int) error {
		id := fmt.Sprintf("key_%s_%d", round, i)
		if err := s.CreateKey(ctx, quota.Key{ID: id, Account: "a0", Hash: quota.HashKey(id),
			Created: crashTime}); err != nil {
			return err
		}
		say("key", id)
		return nil
	})
	work(func(i int) error {
		r := feedback.Record{ID: fmt.Sprintf("fb_%s_%d", round, i), Time: crashTime, Account: "a0",
			Text: strings.Repeat("x", 2000)}
		if err := s.AppendFeedback(ctx, r, feedback.Bound{}); err != nil {
			return err
		}
		say("feedback", r.ID)
		return nil
	})
	work(func(i int) error {
		// A document and the sum of them, in one change.
		found, err := s.Documents(ctx, "crash", "sum")
		if err != nil {
			return err
		}
		sum, _ := strconv.Atoi(string(found[0].Value))
		id := fmt.Sprintf("doc/%s/%d", round, i)
		err = s.ChangeDocuments(ctx, "crash", documents.Change{Key: id, Value: []byte(strings.Repeat("x", 2000))},
			documents.Change{Key: "sum", Value: []byte(strconv.Itoa(sum + 1)), If: found[0].Unchanged()})
		if err != nil {
			return err
		}
		say("document", id)
		return nil
	})
	return <-failed
}

// openAfterKill opens a database whose server has just been killed. The database's process may need a moment to end.
func openAfterKill(dir string) (*badger.Store, error) {
	for attempt := 0; ; attempt++ {
		s, err := badger.Open(badger.Options{Dir: dir})
		if !errors.Is(err, badger.ErrLocked) || attempt == 1000 {
			return s, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func say(what, id string) { os.Stdout.WriteString(what + " " + id + "\n") }

// heard is what victims have written.
type heard struct {
	tries, counts map[string]int64
	keys, records []string
	documents     []string
}

// TestKilledProcessLosesNothingAcknowledged kills the process at random moments, as kill -9 and the kernel's
// out-of-memory killer do, and compares what it acknowledged with what is stored.
func TestKilledProcessLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	rounds := 6
	if n, err := strconv.Atoi(os.Getenv(crashRounds)); err == nil {
		rounds = n
	}
	dir := t.TempDir()
	all := heard{tries: map[string]int64{}, counts: map[string]int64{}}
	for round := range rounds {
		all.listen(t, dir, round)
		all.compare(t, dir)
	}
	t.Logf("%d rounds: %v counts, %d keys and %d feedback records acknowledged", rounds, all.counts, len(all.keys),
		len(all.records))
	if all.counts["a0"] == 0 || all.counts["a2"] == 0 || len(all.keys) == 0 || len(all.records) == 0 ||
		len(all.documents) == 0 {
		t.Error("the victims did too little to tell")
	}
}

// listen runs a victim, kills it after a while and reads everything that it has written.
func (h *heard) listen(t *testing.T, dir string, round int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), crashDir+"="+dir, crashRound+"="+strconv.Itoa(round))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var timer *time.Timer
	var once sync.Once
	for lines := bufio.NewScanner(out); lines.Scan(); {
		once.Do(func() {
			timer = time.AfterFunc(time.Duration(rand.IntN(400))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		})
		what, id, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "try":
			h.tries[id]++
		case "count":
			h.counts[id]++
		case "key":
			h.keys = append(h.keys, id)
		case "feedback":
			h.records = append(h.records, id)
		case "document":
			h.documents = append(h.documents, id)
		}
	}
	if timer == nil {
		t.Fatal("the victim said nothing")
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the victim was not killed: %v", err)
	}
}

// compare checks that everything that was acknowledged is there.
func (h *heard) compare(t *testing.T, dir string) {
	t.Helper()
	ctx := context.Background()
	s, err := openAfterKill(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: got the error %v, want none", err)
		}
	}()
	for account, acknowledged := range h.counts {
		c := crashCharge(account)
		got, err := s.Counts(ctx, account, c.Now, c.Period)
		if err != nil {
			t.Fatal(err)
		}
		between := func(what string, stored, least, most int64) {
			if stored < least || stored > most {
				t.Errorf("%s: %s count is %d, want %d to %d", account, what, stored, least, most)
			}
		}
		tried := h.tries[account]
		between("minute", got.Minute, acknowledged, tried)
		if account == "a2" {
			// The acknowledged outcome was a refund.
			between("period", got.Period, 0, tried-acknowledged)
			continue
		}
		flagged, err := s.Flagged(ctx, account, c.Period)
		if err != nil {
			t.Fatal(err)
		}
		between("day", got.Day, acknowledged, tried)
		between("period", got.Period, acknowledged, tried)
		between("flagged", flagged["hate"], acknowledged, tried)
	}
	for _, id := range h.keys {
		if _, err := s.KeyByHash(ctx, quota.HashKey(id)); err != nil {
			t.Errorf("acknowledged key: %v", err)
		}
	}
	stored := map[string]bool{}
	for r, err := range s.Feedback(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		stored[r.ID] = true
	}
	for _, id := range h.records {
		if !stored[id] {
			t.Errorf("acknowledged feedback %s is lost", id)
		}
	}
	kept, sum := map[string]bool{}, ""
	for d, err := range s.ListDocuments(ctx, "crash", documents.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Key == "sum" {
			sum = string(d.Value)
			continue
		}
		kept[d.Key] = true
	}
	if want := strconv.Itoa(len(kept)); sum != want && len(kept) > 0 {
		t.Errorf("there are %s documents, and their sum is %s: a change was made in part", want, sum)
	}
	for _, id := range h.documents {
		if !kept[id] {
			t.Errorf("acknowledged document %s is lost", id)
		}
	}
}
