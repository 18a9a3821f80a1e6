// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Report is the result of [Inspect].
type Report struct {
	// Dir is the directory.
	Dir string `json:"dir"`
	// Tables and Logs are the numbers of tables and logs of the database, Bytes is how much was read.
	Tables int   `json:"tables"`
	Logs   int   `json:"logs"`
	Bytes  int64 `json:"bytes"`
	// Schema is the version of the format, 0 if it is not known.
	Schema uint32 `json:"schema"`
	// Newest is the number of the newest write that was found. Committed is that of the last acknowledged one and
	// Synced that of the last synced one, as the file PROGRESS says. All are 0 if the database does not number its
	// writes yet.
	Newest    uint64 `json:"newest_write"`
	Committed uint64 `json:"committed_write"`
	Synced    uint64 `json:"synced_write"`
	// Gap is not 0 if unsynced writes are missing before others, as the loss of power can leave it. It is the number
	// that must be written as the record of gapKey, and synced, before PROGRESS is written: a later inspection would
	// miss these writes otherwise.
	Gap uint64 `json:"gap,omitempty"`
	// Findings are what is wrong, in the order of file names.
	Findings []Finding `json:"findings"`

	tables   []*tableReport
	logs     []*logReport
	manifest manifest
	// upgrading says that values may have no checksum although the schema is the present one.
	upgrading bool
	empty     []string // files without content, which a crash has left and Badger refuses
}

// Finding is something in a file that is not as after an orderly end.
type Finding struct {
	// File is the name of the file in the directory.
	File string `json:"file"`
	// Problem says what is wrong.
	Problem string `json:"problem"`
	// Damage says that records are, or may be, lost or changed. Without it, the finding is what a crash leaves behind.
	Damage bool `json:"damage"`
	// Unreadable says that the disk could not read the file. It may be able to later.
	Unreadable bool `json:"unreadable,omitempty"`
}

func (f Finding) String() string { return f.File + ": " + f.Problem }

// Err returns nil if everything that was acknowledged is there. Otherwise the error names a file and what is wrong
// with it, and wraps [ErrDamaged] unless the disk could not read it.
func (r *Report) Err() error {
	first, more, unreadable := -1, 0, false
	for i, f := range r.Findings {
		if !f.Damage {
			continue
		}
		unreadable = unreadable || f.Unreadable
		if first < 0 {
			first = i
		} else {
			more++
		}
	}
	if first < 0 {
		return nil
	}
	what := r.Findings[first].String()
	if more > 0 {
		what += fmt.Sprintf(" (and %d more)", more)
	}
	if unreadable {
		return fmt.Errorf("the database in %s cannot be read: %s", r.Dir, what)
	}
	return fmt.Errorf("%w: %s", ErrDamaged, what)
}

// damage adds a finding that is damage.
func (r *Report) damage(file, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{File: file, Problem: fmt.Sprintf(format, args...), Damage: true})
}

// problem adds a finding for an error of reading a file. It returns the error if the file is not to blame.
func (r *Report) problem(file string, err error) error {
	var path *fs.PathError
	switch {
	case errors.Is(err, fs.ErrPermission):
		return err
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		r.damage(file, "it ends too early")
	case errors.As(err, &path):
		what := "it cannot be read: " + path.Err.Error()
		r.Findings = append(r.Findings, Finding{File: file, Problem: what, Damage: true, Unreadable: true})
	case err != nil:
		r.damage(file, "%s", err)
	}
	return nil
}

func (r *Report) missing(id uint64) { r.damage(tableName(id), "it is listed in MANIFEST and missing") }

// remark adds a finding that is no damage.
func (r *Report) remark(file, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{File: file, Problem: fmt.Sprintf(format, args...)})
}

// Inspect reads a directory that nobody has open and reports whether everything that was acknowledged is still there.
// It changes nothing. An error says that the directory cannot be read at all; what is wrong with files is in the
// report.
func Inspect(dir string) (*Report, error) {
	return inspect(dir, inspection{boot: bootID()})
}

// inspection says what is expected of a directory.
type inspection struct {
	// boot is the present boot id: with another one, the machine was restarted since the database was written.
	boot [16]byte
	// rewrite is [Options.Rewrite].
	rewrite bool
}

func inspect(dir string, o inspection) (*Report, error) {
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	r := &Report{Dir: dir, Findings: []Finding{}}
	files := r.sort(found)
	note, noted, err := r.loadProgress(dir)
	if err != nil {
		return nil, err
	}
	if !files.manifest {
		// Badger would make a new database and remove the files that it does not know.
		r.withoutManifest(files, note.committed)
		r.readAll(dir)
		return r, r.checkWrites(o, note, noted)
	}
	if err := r.readManifest(dir); err != nil {
		return nil, err
	}
	r.manifest.finish(files.tables)
	for id := range r.manifest.tables {
		if !slices.Contains(files.tables, id) {
			r.missing(id)
		}
	}
	for _, id := range files.tables {
		entry, listed := r.manifest.tables[id]
		r.tables = append(r.tables, &tableReport{id: id, listed: listed, level: entry.level,
			compression: entry.compression})
	}
	for _, id := range files.logs {
		r.logs = append(r.logs, &logReport{id: id})
	}
	r.readAll(dir)
	if err := errors.Join(r.checkLevels(), r.checkLogs()); err != nil {
		return nil, err
	}
	if err := r.checkWrites(o, note, noted); err != nil {
		return nil, err
	}
	for _, id := range r.manifest.unfinished {
		if r.Err() != nil || !noted || r.Newest == 0 {
			r.missing(id)
			continue
		}
		r.remark(tableName(id),
			"it is listed in MANIFEST and missing, and nothing in it is missed: it could not be finished")
	}
	r.remarkTruncations()
	for _, check := range []func(string, []uint64) error{r.checkRegistry, r.checkDiscard, r.checkValueLogs} {
		if err := check(dir, files.values); err != nil {
			return nil, err
		}
	}
	// Maps have added findings in no order.
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return strings.Compare(a.File, b.File) })
	return r, nil
}

// loadProgress reads PROGRESS.
func (r *Report) loadProgress(dir string) (p progress, noted bool, err error) {
	p, err = readProgress(dir)
	switch {
	case err == nil:
		return p, true, nil
	case errors.Is(err, fs.ErrNotExist):
		return p, false, nil
	case !errors.Is(err, errNoProgress):
		return p, false, r.problem(progressName, err)
	}
	b, err := readFile(filepath.Join(dir, progressName), 1<<20)
	if err == nil && lastNonZero(b) < 0 {
		// Power was lost before its first slot was on the disk.
		r.empty = append(r.empty, progressName)
		return p, false, nil
	}
	r.damage(progressName, "it is damaged: whether the last writes are there cannot be told")
	return p, false, nil
}

// files are the files of Badger in a directory, by kind.
type files struct {
	manifest, registry, discard bool
	tables, logs, values        []uint64
}

// sort tells the files of a directory apart by their names.
func (r *Report) sort(found []fs.DirEntry) (f files) {
	for _, e := range found {
		name := e.Name()
		number := func(ids *[]uint64, format string) {
			var id uint64
			// A file with another form of name ends Badger's process, or Badger ignores it with the records in it.
			if _, err := fmt.Sscanf(name, "%d", &id); err != nil || fmt.Sprintf(format, id) != name || id >= 1<<31 {
				r.damage(name, "no file of the database has such a name; move it away")
				return
			}
			*ids = append(*ids, id)
		}
		switch {
		case name == manifestName:
			f.manifest = true
		case name == registryName:
			f.registry = true
		case name == discardName:
			f.discard = true
		case strings.HasSuffix(name, ".sst"):
			number(&f.tables, "%06d.sst")
		case strings.HasSuffix(name, ".mem"):
			number(&f.logs, "%05d.mem")
		case strings.HasSuffix(name, ".vlog"):
			number(&f.values, "%06d.vlog")
		}
	}
	slices.Sort(f.tables)
	slices.Sort(f.logs)
	slices.Sort(f.values)
	return f
}

// withoutManifest reports on a directory without MANIFEST, the first file that Badger makes.
func (r *Report) withoutManifest(f files, committed uint64) {
	switch {
	case len(f.tables)+len(f.logs)+len(f.values) > 0:
		r.damage(manifestName, "it is missing, and there are %d tables and %d logs", len(f.tables), len(f.logs))
	case f.registry || f.discard || committed > 0:
		r.damage(manifestName, "it is missing, with all tables and logs")
	}
	for _, id := range f.tables {
		r.tables = append(r.tables, &tableReport{id: id})
	}
	for _, id := range f.logs {
		r.logs = append(r.logs, &logReport{id: id})
	}
}

// readAll reads tables and logs, several at a time.
func (r *Report) readAll(dir string) {
	jobs := make(chan func(*buffers))
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), 4) {
		wait.Go(func() {
			b := newBuffers()
			for job := range jobs {
				job(b)
			}
		})
	}
	for _, t := range r.tables {
		jobs <- func(b *buffers) { t.read(dir, b) }
	}
	for _, l := range r.logs {
		jobs <- func(*buffers) { l.read(dir) }
	}
	close(jobs)
	wait.Wait()
	for _, t := range r.tables {
		r.Bytes += t.size
		if t.listed {
			r.Tables++
		}
	}
	for _, l := range r.logs {
		r.Bytes += l.size
	}
	r.Logs = len(r.logs)
}

// checkLevels reports damaged tables, and tables above level 0 whose keys overlap.
func (r *Report) checkLevels() error {
	levels := make(map[uint32][]*tableReport)
	for _, t := range r.tables {
		if !t.listed {
			continue
		}
		if t.problem != nil {
			if err := r.problem(t.name(), t.problem); err != nil {
				return err
			}
			continue
		}
		levels[t.level] = append(levels[t.level], t)
	}
	for level, tables := range levels {
		if level == 0 {
			continue
		}
		slices.SortFunc(tables, func(a, b *tableReport) int { return compareKeys(a.smallest, b.smallest) })
		for i := 1; i < len(tables); i++ {
			if compareKeys(tables[i-1].biggest, tables[i].smallest) >= 0 {
				r.damage(tables[i].name(), "its keys overlap those of %s: one of them is not what was written",
					tables[i-1].name())
			}
		}
	}
	return nil
}

// checkLogs reports logs that Badger refuses, and empty ones. Whether a log has lost writes is found by checkWrites.
func (r *Report) checkLogs() error {
	for _, l := range r.logs {
		if err := r.problem(l.name(), l.problem); err != nil {
			return err
		}
		if l.problem == nil && l.size == 0 {
			r.remark(l.name(), "it is empty: a crash came before its first record")
			r.empty = append(r.empty, l.name())
		}
	}
	return nil
}

// remarkTruncations reports where a crash has cut off what was being written.
func (r *Report) remarkTruncations() {
	damaged := func(name string) bool {
		return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Damage && f.File == name })
	}
	if r.manifest.end > 0 && !damaged(manifestName) {
		r.remark(manifestName, "it ends in the middle of a change at offset %d, as a crash leaves it", r.manifest.end)
	}
	for _, l := range r.logs {
		if l.rest && !damaged(l.name()) {
			r.remark(l.name(), "it ends in the middle of a write at offset %d, as a crash leaves it", l.end)
		}
	}
}

// checkWrites compares the numbers of the writes that were found with those that must be there.
func (r *Report) checkWrites(o inspection, note progress, noted bool) error {
	// Numbers below the newest one in a compacted table may be gone: a compaction keeps only the newest version of a
	// record.
	var floor, schema, gap, upgrading newestRecord
	var present numberSet
	highest := uint64(0)
	for _, t := range r.tables {
		highest = max(highest, t.commits.highest())
		if !t.listed && r.manifest.usable {
			continue
		}
		// A damaged table counts with what could be read of it.
		present.join(t.commits)
		schema.take(t.schema)
		upgrading.take(t.upgrading)
		gap.take(t.gap)
		if t.level > 0 {
			floor.number = max(floor.number, t.commits.highest())
		}
	}
	for _, l := range r.logs {
		highest = max(highest, l.commits.highest(), l.behind.commits.highest())
		present.join(l.commits)
		schema.take(l.schema)
		upgrading.take(l.upgrading)
		gap.take(l.gap)
	}
	present.normalize()
	r.Schema = uint32(schema.number)
	r.Newest, r.upgrading = present.highest(), upgrading.number > 0
	r.Committed, r.Synced = note.committed, note.synced
	if !r.manifest.usable {
		// Nothing can be said about what should be there.
		return nil
	}
	if highest == 0 && note.committed == 0 {
		return r.checkVersions()
	}
	since := max(floor.number, gap.number)
	required := note.committed
	if len(r.manifest.unfinished) > 0 {
		// What may have been in a missing table must be elsewhere.
		since = floor.number
	}
	switch {
	case !noted:
		// Nothing says what was acknowledged: everything that was ever written must be there.
		required = highest
		if slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.File == progressName }) {
			break // it is reported already
		}
		r.damage(progressName, "it is missing or empty: whether the last writes are there cannot be told")
	case o.rewrite || note.boot != o.boot || note.boot == [16]byte{}:
		required = note.synced
	}
	if first, last, missing := present.missing(since, required); missing {
		r.lost(first, last, required)
	} else if _, _, missing := present.missing(since, r.Newest); missing {
		r.Gap = r.Newest
		r.remark(progressName,
			"writes before the write %d are missing that were not on the disk yet, as power loss leaves it", r.Newest)
	}
	for _, t := range r.tables {
		if !t.listed && r.Err() == nil {
			r.remark(t.name(), leftOver)
		}
	}
	return nil
}

const leftOver = "it is not listed in MANIFEST, and nothing in it is missed: " +
	"a crash came before it was listed, or before it was removed"

// lost reports missing writes, at the file that most likely held them.
func (r *Report) lost(first, last, required uint64) {
	what := fmt.Sprintf("the writes %d to %d are lost, of %d that must be there", first, last, required)
	if first == last {
		what = fmt.Sprintf("the write %d is lost, of %d that must be there", first, required)
	}
	for _, t := range r.tables {
		if !t.listed && t.commits.has(first, last) {
			r.damage(manifestName, "%s does not stand in it: %s", t.name(), what)
			return
		}
	}
	if err := r.Err(); err != nil {
		// The finding that is reported already is the cause, or hides it.
		r.damage(progressName, "%s", strings.Replace(what, "lost", "not found", 1))
		return
	}
	for _, l := range r.logs {
		if l.rest && (l.behind.entries > 0 || l.commits.highest() < first) {
			r.damage(l.name(), "it is damaged at offset %d, with %d records behind that: %s", l.end, l.behind.entries,
				what)
			return
		}
	}
	for _, l := range r.logs {
		switch l.commits.highest() {
		case first - 1:
			r.damage(l.name(), "it ends with write %d: %s", first-1, what)
			return
		case 0:
			r.damage(l.name(), "it holds no write: %s", what)
			return
		}
	}
	r.damage(progressName, "%s: a file has been removed, or one of an older state put back", what)
}

// checkVersions stands in for checkWrites in a database that does not number its writes. Badger's versions number
// them too, but with gaps.
func (r *Report) checkVersions() error {
	compacted := uint64(0)
	var present numberSet
	unlisted := slices.ContainsFunc(r.tables, func(t *tableReport) bool { return !t.listed })
	for _, t := range r.tables {
		switch {
		case !t.listed || t.problem != nil:
		case t.level > 0:
			compacted = max(compacted, t.maxVersion)
		case unlisted:
			// This is rare: the table is read once more.
			again := tableReport{id: t.id, listed: true, compression: t.compression,
				fileSummary: fileSummary{trackVersions: true}}
			if again.read(r.Dir, newBuffers()); again.problem != nil {
				return again.problem
			}
			present.join(again.versions)
		}
	}
	for _, l := range r.logs {
		present.join(l.versions)
	}
	present.normalize()
	for _, l := range r.logs {
		if l.rest && l.behind.entries > 0 {
			r.damage(l.name(), "it is damaged at offset %d, with %d records behind that", l.end, l.behind.entries)
		}
	}
	for _, t := range r.tables {
		if t.listed {
			continue
		}
		orphan := len(r.manifest.tables)+len(r.logs) == 0
		if !r.manifest.removed[t.id] {
			for _, s := range t.versions {
				if _, _, missing := present.missing(max(compacted, s.from-1), s.to); missing && s.to > compacted {
					orphan = true
				}
			}
		}
		if orphan {
			r.damage(manifestName, "%s does not stand in it, and holds records that are nowhere else", t.name())
			continue
		}
		r.remark(t.name(), leftOver)
	}
	return nil
}

// Empty reports whether the directory holds no file of a database.
func (r *Report) Empty() bool {
	return len(r.tables)+len(r.logs) == 0 && r.Schema == 0 && !r.manifest.usable && len(r.Findings) == 0
}

// cleanUp removes what a crash has left and Badger would stumble over: files without content, and what follows the
// end of a log, which Badger cuts off or refuses. It is for a directory that was found to be whole and that nobody
// has open. The caller replaces MANIFEST by the part of it that counts; see [rewriteManifest].
func (r *Report) cleanUp() error {
	if err := r.Err(); err != nil {
		return fmt.Errorf("%w; nothing was changed; run: caddy moderation check %s", err, r.Dir)
	}
	for _, name := range r.empty {
		if err := os.Remove(filepath.Join(r.Dir, name)); err != nil {
			return err
		}
	}
	for _, l := range r.logs {
		if !l.rest {
			continue
		}
		if err := os.Truncate(filepath.Join(r.Dir, l.name()), l.end); err != nil {
			return err
		}
	}
	return nil
}

// removeUnlisted removes the tables that a crash has left. Badger would remove them, too, but later. The caller has
// made durable the MANIFEST that does not list them.
func (r *Report) removeUnlisted() error {
	for _, t := range r.tables {
		if t.listed {
			continue
		}
		if err := os.Remove(filepath.Join(r.Dir, t.name())); err != nil {
			return err
		}
	}
	return nil
}

// memTable returns the size of a table in memory into which each of the logs fits, at least minimum. Badger ends the
// process if a log does not fit, which may happen to one that was written with a larger table.
func (r *Report) memTable(minimum int64) int64 {
	for _, l := range r.logs {
		// A record takes about 40 bytes in memory beside what it takes in the log. A table has a quarter more room
		// than its size.
		if size := l.end + 40*int64(l.entries); size > minimum+minimum/4 {
			minimum = size
		}
	}
	return minimum
}

// newestRecord is the number in the newest version of a metadata record.
type newestRecord struct{ version, number uint64 }

func (n *newestRecord) take(other newestRecord) {
	if other.version >= n.version {
		*n = other
	}
}

// numberSet is a set of numbers, as intervals.
type numberSet []interval

// interval holds the numbers in the range [from, to], both ends included.
type interval struct{ from, to uint64 }

// add adds a number. That is cheap if it is next to the last one.
func (s *numberSet) add(n uint64) {
	if last := len(*s) - 1; last >= 0 {
		at := &(*s)[last]
		switch {
		case n >= at.from && n <= at.to:
			return
		case n == at.to+1:
			at.to = n
			return
		case n+1 == at.from:
			at.from = n
			return
		}
		// Versions come in any order from entries that are sorted by key: keep the set from growing without bound.
		if last >= 1<<12 && last&(last+1) == 0 {
			s.normalize()
		}
	}
	*s = append(*s, interval{n, n})
}

func (s *numberSet) join(other numberSet) { *s = append(*s, other...) }

// normalize sorts the intervals and joins those that touch.
func (s *numberSet) normalize() {
	slices.SortFunc(*s, func(a, b interval) int {
		switch {
		case a.from < b.from:
			return -1
		case a.from > b.from:
			return 1
		}
		return 0
	})
	joined := (*s)[:0]
	for _, next := range *s {
		if last := len(joined) - 1; last >= 0 && (next.from <= joined[last].to || next.from == joined[last].to+1) {
			joined[last].to = max(joined[last].to, next.to)
			continue
		}
		joined = append(joined, next)
	}
	*s = joined
}

func (s numberSet) highest() (n uint64) {
	for _, at := range s {
		n = max(n, at.to)
	}
	return n
}

// has reports whether a number from first to last is in the set.
func (s numberSet) has(first, last uint64) bool {
	return slices.ContainsFunc(s, func(at interval) bool { return at.from <= last && at.to >= first })
}

// missing returns the first gap between floor, exclusive, and upTo, inclusive. The set must be normalized.
func (s numberSet) missing(floor, upTo uint64) (first, last uint64, missing bool) {
	next := floor + 1
	for _, at := range s {
		if next > upTo {
			return 0, 0, false
		}
		if at.to < next {
			continue
		}
		if at.from > next {
			return next, min(at.from-1, upTo), true
		}
		next = at.to + 1
	}
	if next > upTo {
		return 0, 0, false
	}
	return next, upTo, true
}
