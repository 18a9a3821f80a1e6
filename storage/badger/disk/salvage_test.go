// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// salvaged is what is left in a directory.
func salvaged(t *testing.T, dir string) (records map[string]string, lost []LostRange, report *Report) {
	t.Helper()
	report, err := Inspect(dir)
	if err != nil {
		t.Fatal(err)
	}
	records = make(map[string]string)
	last := ""
	lost, err = report.Salvage(func(f SalvagedRecord) error {
		if f.Damaged {
			t.Errorf("the record %q is damaged", f.Key)
		}
		if string(f.Key) <= last {
			t.Errorf("%q comes behind %q", f.Key, last)
		}
		last = string(f.Key)
		records[last] = string(f.Value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records, lost, report
}

func TestSalvageFindsAllThatIsWhole(t *testing.T) {
	t.Parallel()
	for _, schema1 := range []bool{true, false} {
		for _, s := range states(t, schema1) {
			records, lost, _ := salvaged(t, s.dir)
			if missing, wrong := compare(records, s.ledger); missing+wrong > 0 || len(records) != len(s.ledger) ||
				len(lost) > 0 {
				t.Errorf("%s: %d of %d records, %d missing, %d wrong; losses %v", s.name, len(records), len(s.ledger),
					missing, wrong, lost)
			}
		}
	}
}

func compare(got, want map[string]string) (missing, wrong int) {
	for k, v := range want {
		switch found, there := got[k]; {
		case !there:
			missing++
		case found != v:
			wrong++
		}
	}
	return missing, wrong
}

func TestSalvageLosesNoMoreThanIsDamaged(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, false)
	d.write(800)
	d.reopen()
	d.compact()
	compacted := state{dir: d.copy("compacted"), ledger: maps.Clone(d.ledger)}
	d.write(100)
	killed := state{dir: d.copy("killed"), ledger: d.ledger}
	for name, test := range map[string]struct {
		of   state
		harm func(t *testing.T, dir string)
		// most records may be missing, and as many may be older ones.
		most int
	}{
		"a block of a table":         {compacted, flip("*.sst", 6000, 1), 60},
		"the index of a table":       {compacted, flip("*.sst", -40, 1), 0},
		"the end of a table":         {compacted, cut("*.sst", -20), 0},
		"half of a table":            {compacted, cut("*.sst", -20000), 700},
		"MANIFEST removed":           {killed, remove(manifestName), 0},
		"MANIFEST cut":               {killed, cut(manifestName, 40), 0},
		"MANIFEST flipped":           {killed, flip(manifestName, 30, 1), 0},
		"an entry of a log":          {killed, flip("*.mem", 3000, 1), 1},
		"the header of a log":        {killed, flip("*.mem", 1, 1), 0},
		"a page of a log":            {killed, overwrite("*.mem", 4096, make([]byte, 4096)), 60},
		"a log with its end missing": {killed, cut("*.mem", 9000), 250},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "d")
			if err := os.CopyFS(dir, os.DirFS(test.of.dir)); err != nil {
				t.Fatal(err)
			}
			test.harm(t, dir)
			records, lost, report := salvaged(t, dir)
			missing, wrong := compare(records, test.of.ledger)
			t.Logf("%d of %d records, %d missing, %d older; losses %v", len(records), len(test.of.ledger), missing,
				wrong, len(lost))
			if missing+wrong > test.most {
				t.Fatal("more is lost than was damaged")
			}
			if report.Err() == nil {
				t.Fatal("it was not found to be damaged")
			}
		})
	}
}

// TestSalvageSurvivesAnything reads directories that are damaged at random.
func TestSalvageSurvivesAnything(t *testing.T) {
	t.Parallel()
	all := states(t, false)
	random := rand.New(rand.NewPCG(5, 6))
	for i := range 6 * len(all) {
		s := all[i%len(all)]
		dir := filepath.Join(t.TempDir(), "d")
		if err := os.CopyFS(dir, os.DirFS(s.dir)); err != nil {
			t.Fatal(err)
		}
		what := ""
		for range 3 {
			what += fmt.Sprint(harm(t, random, dir, s.older), ", ")
		}
		report, err := Inspect(dir)
		if err != nil {
			t.Fatal(what, err)
		}
		if _, err := report.Salvage(func(SalvagedRecord) error { return nil }); err != nil {
			t.Fatal(what, err)
		}
	}
}
