// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-moderation/caddy-moderation/feedback"
	"github.com/caddy-moderation/caddy-moderation/quota"
	"github.com/caddy-moderation/caddy-moderation/storage/badger"
)

// TestTranscript runs commands as an operator would and compares what the terminal shows: lines of the standard
// output as they are, those of the standard error output after "! ".
func TestTranscript(t *testing.T) {
	load(t, "storage badger DIR")
	var shown strings.Builder
	for _, line := range []string{
		"account create acme --name Acme --tier starter --anchor-day 15",
		"account create acme",
		"account create other --status trialing --requests-per-month 0 --requests-per-minute 7 --threshold hate=0.9 --threshold violence=0.5",
		"account create",
		"account create x --threshold hate",
		"account create x --threshold hate=much",
		"account create x --threshold hate=1.5",
		"account create x --threshold spam=0.5",
		"account create x --harm-share 2",
		"account create x --harm-share much",
		"account create x --requests-per-month lots",
		"account create x --tier gold",
		"account list",
		"account list --json",
		"account show other",
		"account show nobody",
		"account update other --requests-per-month tier --threshold hate=default",
		"account update other --harm-share 2%",
		"account update other --harm-share default",
		"account update other --harm-share 0.5%",
		"account update other --block-file testdata/words.txt --allow-file nofile",
		"account update other --block-file testdata/words_bad.txt",
		"account update other --block-file testdata/words.txt --languages en,pt-BR --other-language review",
		"account update other --other-language perhaps",
		"account update other --languages e",
		"account update other --languages none",
		"account update other --block-file none",
		"account update other --name= --status active --tier starter --anchor-day 31",
		"account update other",
		"account update other --status actve",
		"account update other --status=",
		"account create x --status actve",
		"account update other --status on_hold --force",
		"account show other",
		"account list",
		"account update other --status On-Hold --force",
		"account update other --status active",
		"account update fixed --tier free",
		"key create --account acme --name web --environment production --expires 2999-01-31",
		"key create --account other --json",
		"key create",
		"key create --account acme --expires soon",
		"key create --account acme --expires 2001-01-01",
		"key create --account nobody",
		"key list",
		"key list --account acme --json",
		"key revoke key_x",
		"key rotate key_x --overlap soon",
		"key rotate key_x",
		"usage --account acme",
		"usage --account fixed",
		"usage --key key_x",
		"usage --key mod_sk_0123456789",
		"usage",
		"feedback export",
		"account delete other",
		"account delete other --yes",
		"account delete other --yes",
		"acount list",
		"account drop",
		"account creat x",
		"account list x",
		"account show ",
		"account create x --anchor-day first",
		"account create x --teir free",
		"key create acme",
		"key create --account=",
		"key list acme",
		"key revoke acme",
		"key revoke mod_sk_0123456789abcdefghijklmnopqrstuv",
		"key rotate mod_sk_0123456789abcdefghijklmnopqrstuv",
		"usage acme",
		"restore missing --dir x",
		"restore missing",
		"restore missing --dir x --redis localhost",
		"restore missing --config nofile",
		"migrate",
		"migrate badger /nonexistent/data redis localhost:6379",
		"migrate badger x postgres y",
		"migrate badger x redis localhost --config nofile",
		"migrate --status",
		"migrate --undo",
		"migrate --status now",
	} {
		stdout, stderr, _ := run(t, strings.Split(line, " ")...)
		shown.WriteString("$ caddy moderation " + line + "\n" + normalized(stdout))
		for note := range strings.Lines(normalized(stderr)) {
			shown.WriteString("! " + note)
		}
	}
	golden(t, "transcript.txt", shown.String())
}

// TestFailuresFail: a script sees that a command did not do what it was asked.
func TestFailuresFail(t *testing.T) {
	load(t, "storage badger DIR")
	for _, line := range []string{
		"account show nobody", "account delete fixed --yes", "account update fixed --name x", "key create --account nobody",
		"key revoke key_x", "usage --account nobody", "acount list", "account", "backup", "restore nothing --dir x", "key rotate key_x",
	} {
		_, stderr, err := run(t, strings.Fields(line)...)
		if (err == nil) != (line == "account") {
			t.Errorf("%s: got the error %v (%s), want an error: %v", line, err, stderr, line != "account")
		}
	}
}

func TestKeyCreatePrintsOnlyTheKey(t *testing.T) {
	load(t, "storage badger DIR")
	stdout, stderr, err := run(t, "key", "create", "--account", "fixed", "--expires", "90d")
	if err != nil {
		t.Fatalf("key create: %v, %s", err, stderr)
	}
	secret, rest, ok := strings.Cut(stdout, "\n")
	if !ok || rest != "" || !secrets.MatchString(secret) || len(secret) != len("mod_sk_")+32 {
		t.Errorf("key create: got %q on the standard output, want a key and nothing else", stdout)
	}
	if strings.Contains(stderr, secret) {
		t.Error("the key is on the standard error output, too, which ends up in logs")
	}
	if _, err := services(t).Gate.Authenticate(t.Context(), secret); err != nil {
		t.Errorf("using the key: %v", err)
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 9, 0, 0, 500, time.UTC)
	line := &cli{now: func() time.Time { return now }}
	rows := []struct{ text, want string }{
		{"2027-01-31", "2027-01-31T00:00:00Z"},
		{"2027-01-31T12:00:00+02:00", "2027-01-31T10:00:00Z"},
		{"90d", "2027-02-19T09:00:00Z"},
		{"36h", "2026-11-22T21:00:00Z"},
		{"", "never"},
		{"soon", "error"},
		{"0s", "error"},
		{"-1d", "error"},
		{"2027-02-30", "error"},
	}
	for _, row := range rows {
		t.Run(row.text, func(t *testing.T) {
			t.Parallel()
			got := "never"
			instant, err := line.expiry(row.text)
			switch {
			case err != nil:
				got = "error"
			case instant != nil:
				got = instant.Format(time.RFC3339Nano)
			}
			if got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func TestFeedbackExport(t *testing.T) {
	load(t, "storage badger DIR")
	keep(t, "fixed", "one", "two <b>")
	keep(t, "gone", "three")
	texts := func(lines string) string {
		var all []string
		for line := range strings.Lines(lines) {
			var record feedback.Record
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Fatalf("decoding the line %q: %v", line, err)
			}
			all = append(all, record.Text)
		}
		return strings.Join(all, ",")
	}
	if got := texts(must(t, "feedback", "export", "--account", "fixed")); got != "one,two <b>" {
		t.Errorf("the feedback of fixed: got the texts %q, want %q", got, "one,two <b>")
	}
	// The feedback of an account that is no more is still there.
	if got := texts(must(t, "feedback", "export", "--account", "gone")); got != "three" {
		t.Errorf("the feedback of gone: got the texts %q, want %q", got, "three")
	}
	file := filepath.Join(t.TempDir(), "all.jsonl")
	must(t, "feedback", "export", "--out", file)
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(written), "\n"); got != 3 {
		t.Errorf("the export of all: got %d records, want 3", got)
	}
}

func TestBackupAndRestore(t *testing.T) {
	load(t, "storage badger DIR")
	must(t, "account", "create", "acme", "--tier", "starter")
	secret := must(t, "key", "create", "--account", "acme")
	keep(t, "acme", "one")
	dir := t.TempDir()
	file, restored := filepath.Join(dir, "backup"), filepath.Join(dir, "data")
	must(t, "backup", file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup: got the mode %v (%v), want 0600", info.Mode(), err)
	}
	if _, stderr, err := run(t, "backup", file); err == nil ||
		stderr != "Error: "+file+" exists; add --force to replace it\n" {
		t.Errorf("a second backup into the file: got the error %v (%s), want that it exists", err, stderr)
	}
	must(t, "backup", file, "--force")
	must(t, "restore", file, "--dir", restored)
	if _, stderr, err := run(t, "restore", file, "--dir", restored); err == nil ||
		!strings.Contains(stderr, "is not empty") {
		t.Errorf("a second restore into the directory: got the error %v (%s), want that it is not empty", err, stderr)
	}

	store, err := badger.Open(badger.Options{Dir: restored})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	account, err := store.Account(t.Context(), "acme")
	if err != nil || account.Tier != "starter" {
		t.Errorf("the restored account: got %+v (%v), want the tier starter", account, err)
	}
	records := 0
	for _, err := range store.Feedback(t.Context(), "acme") {
		if err != nil {
			t.Fatal(err)
		}
		records++
	}
	if records != 1 {
		t.Errorf("restored feedback: got %d records, want 1", records)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), secret) {
		t.Error("the backup holds a key")
	}
}

// TestWrittenFilesSurviveALossOfPower guards against commands that say done before the name of a file is on the disk.
func TestWrittenFilesSurviveALossOfPower(t *testing.T) {
	load(t, "storage badger DIR")
	must(t, "account", "create", "acme")
	keep(t, "acme", "one")
	dir := t.TempDir()
	backup, export, restored := filepath.Join(dir, "backup"), filepath.Join(dir, "export"), filepath.Join(dir, "new", "er", "data")
	for _, test := range []struct {
		file      string
		dirs      []string // that have new names in them
		arguments []string
	}{
		{backup, []string{dir}, []string{"backup", backup}},
		{backup, []string{dir}, []string{"backup", backup, "--force"}},
		{export, []string{dir}, []string{"feedback", "export", "--out", export}},
		{restored, []string{filepath.Dir(restored), filepath.Join(dir, "new"), dir}, []string{"restore", backup, "--dir", restored}},
	} {
		var synced []string
		line := newCLI()
		line.syncDir = func(dir string) error {
			if _, err := os.Stat(test.file); err != nil {
				t.Errorf("%v: synced before the name was there: %v", test.arguments, err)
			}
			synced = append(synced, dir)
			return syncDir(dir)
		}
		if _, stderr, err := runLine(t, line, test.arguments...); err != nil || !slices.Equal(synced, test.dirs) {
			t.Errorf("%v: synced %v, want %v; %s", test.arguments, synced, test.dirs, stderr)
		}
	}
	line := newCLI()
	line.syncDir = func(string) error { return errors.New("the disk is gone") }
	if _, stderr, err := runLine(t, line, "backup", backup, "--force"); err == nil ||
		strings.Contains(stderr, "Wrote") {
		t.Errorf("a name that may be lost: got %q (%v), want an error, and not that it is written", stderr, err)
	}
}

func TestRestoreRefusesAPart(t *testing.T) {
	load(t, "storage badger DIR")
	must(t, "account", "create", "acme")
	dir := t.TempDir()
	file, part := filepath.Join(dir, "backup"), filepath.Join(dir, "part")
	must(t, "backup", file)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(part, content[:len(content)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, err := run(t, "restore", part, "--dir", filepath.Join(dir, "data")); err == nil ||
		!strings.Contains(stderr, badger.ErrBackup.Error()) {
		t.Errorf("restoring a part of a backup: got the error %v (%s), want %v", err, stderr, badger.ErrBackup)
	}
}

// TestBrokenOffFiles: neither a part of a backup nor a temporary file is left behind.
func TestBrokenOffFiles(t *testing.T) {
	load(t, "storage broken DIR")
	dir := t.TempDir()
	for _, line := range [][]string{
		{"backup", filepath.Join(dir, "backup")},
		{"feedback", "export", "--out", filepath.Join(dir, "feedback")},
		{"backup", "-"},
		{"feedback", "export"},
	} {
		_, stderr, err := run(t, line...)
		if err == nil || !strings.Contains(stderr, "the answer of the server at "+address+" broke off") {
			t.Errorf("%v: got the error %v (%s), want that the answer broke off", line, err, stderr)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("got the files %v, want none", left)
	}
}

// TestRotation is what an operator sees who rotates a key, runs the command once more, and has lost the new key.
func TestRotation(t *testing.T) {
	load(t, "storage badger DIR")
	must(t, "key", "create", "--account", "fixed", "--expires", "2999-01-31")
	ids := func() []string {
		var all []string
		for _, k := range keysOf(t, "fixed") {
			if !k.Declared {
				all = append(all, k.ID)
			}
		}
		return all
	}
	first := ids()[0]
	stdout, stderr, err := run(t, "key", "rotate", first, "--overlap", "48h")
	if err != nil || !secrets.MatchString(stdout) || strings.Count(stdout, "\n") != 1 {
		t.Fatalf("rotating: got %q (%v, %s), want a key and nothing else", stdout, err, stderr)
	}
	second := ids()[1]
	overlap := time.Now().UTC().Add(48 * time.Hour).Format("2006-01-02")
	for _, want := range []string{
		"Key " + second + " of account fixed. It is shown this once.",
		"The new key is valid until 2999-01-31 00:00 UTC. The old key, " + first + ", is valid until " + overlap[:8],
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("rotating: got %q, want %q", stderr, want)
		}
	}
	_, stderr, err = run(t, "key", "rotate", first)
	if want := "Error: key " + first + ": replaced already by " + second + "; rotate " + second +
		" instead, or, if nobody has it, revoke it and rotate " + first + " again\n"; err == nil || stderr != want {
		t.Errorf("rotating again: got %q (%v), want %q", stderr, err, want)
	}
	if list := must(t, "key", "list", "--account", "fixed"); !strings.Contains(list, "valid, replaced by "+second) {
		t.Errorf("the list: got %s, want that the first key is replaced by %s", list, second)
	}
	must(t, "key", "revoke", second)
	var made madeKey
	if err := json.Unmarshal([]byte(must(t, "key", "rotate", first, "--overlap", "0s", "--json")), &made); err != nil {
		t.Fatal(err)
	}
	if made.Old == nil || made.Old.ID != first || made.Key.Expires == nil || made.Key.Expires.Year() != 2999 {
		t.Errorf("rotating after a revocation: got %+v, want the expiry of the first key and that one as the old", made)
	}
	if _, stderr, err = run(t, "key", "rotate", first); err == nil || !strings.Contains(stderr, "is revoked or expired") {
		t.Errorf("rotating a key that is over: got %q (%v), want that it is expired", stderr, err)
	}
}

// keysOf returns what the command lists.
func keysOf(t *testing.T, account string) []quota.Key {
	t.Helper()
	var keys []quota.Key
	if err := json.Unmarshal([]byte(must(t, "key", "list", "--account", account, "--json")), &keys); err != nil {
		t.Fatal(err)
	}
	return keys
}
