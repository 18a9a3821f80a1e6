// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"

	"github.com/caddy-moderation/caddy-moderation/scripts/internal/faults"
)

// scenario provokes what some entries describe.
type scenario struct {
	name string
	// slow scenarios take minutes, and are played on request.
	slow bool
	play func(*stage)
}

// limit is how long a scenario may take.
func (s *scenario) limit() time.Duration {
	if s.slow {
		return 15 * time.Minute
	}
	return 6 * time.Minute
}

// scenarios are all scenarios, those first that take longest.
var scenarios = []*scenario{
	{"down", false, down},
	{"limits", false, limits},
	{"guard", false, guard},
	{"store-killed", false, storeKilled},
	{"shared-store", false, sharedStore},
	{"frozen", false, frozen},
	{"slow", false, slow},
	{"names", false, names},
	{"resources", false, resources},
	{"stopped", false, stopped},
	{"disk-full", false, diskFull},
	{"caddy", false, caddyItself},
	{"descriptors", false, descriptors},
	{"backup", false, backup},
	{"starting", false, starting},
	{"damage", false, damage},
	{"moved", false, moved},
	{"sync-fails", false, syncFails},
	{"read-only", false, readOnly},
	{"no-programs", false, noPrograms},
	{"in-use", false, inUse},
	{"unreadable", false, unreadable},
	{"upgrade", false, upgrade},
	{"build", false, build},
	{"compaction", true, compaction},
	{"linger", true, linger},
}

func diskFull(s *stage) {
	s.disk(false, 512)
	s.config("", "", "")
	s.start()
	s.monitor()
	s.usual()
	s.pause(2 * time.Second)
	alerts := []string{
		"ModerationStoreDown", "ModerationErrors", "ModerationDiskNearlyFull", "ModerationDiskTooSmallToCompact",
		"ModerationGuardNotCounted",
	}
	fill := func() {
		file, err := os.Create(library + "/other")
		if err != nil {
			s.fail("%w", err)
			return
		}
		defer file.Close()
		var fs unix.Statfs_t
		s.must(unix.Fstatfs(int(file.Fd()), &fs))
		s.must(unix.Fallocate(int(file.Fd()), 0, 0, int64(fs.Bavail)*fs.Bsize-16<<20))
	}
	fill()
	s.ready(false)
	s.fires(alerts...)
	s.refused("caddy moderation account create new")
	s.suggest(acmeKey)
	s.look(append(alerts, "The server does not start on a disk")...)
	s.must(os.Remove(library + "/other"))
	s.ready(true)
	s.ends(alerts...)
	s.stop()
	fill()
	s.startFails()
	s.must(os.Remove(library + "/other"))
	s.start()
	s.ready(true)
}

func storeKilled(s *stage) {
	s.config("", "", "")
	s.start()
	s.monitor()
	s.usual()
	s.pause(3 * time.Second) // Prometheus must have seen the count before
	killing := s.load(500*time.Millisecond, func() {
		if child := s.child(); child != 0 {
			_ = unix.Kill(child, unix.SIGKILL)
		}
	})
	s.fires("ModerationStoreFlapping")
	s.look("ModerationStoreFlapping", "A file is not as after an orderly end")
	killing()
	s.ready(true)
	s.ends("ModerationStoreFlapping")
	s.kill()
	// A crash just before the first record of a new log leaves it empty; killing at that moment takes luck.
	logs, err := filepath.Glob(data + "/*.mem")
	if err != nil || len(logs) == 0 {
		s.fail("the store has no log: %v", err)
		return
	}
	newest := 0
	_, err = fmt.Sscanf(filepath.Base(logs[len(logs)-1]), "%d.mem", &newest)
	s.must(errors.Join(err, os.WriteFile(fmt.Sprintf("%s/%05d.mem", data, newest+1), nil, 0o600)))
	s.start()
}

func slow(s *stage) {
	s.config("", "", "")
	s.start()
	s.monitor()
	stop := s.usual()
	s.pause(2 * time.Second)
	child := s.child()
	limping := s.load(100*time.Millisecond, func() {
		_ = unix.Kill(child, unix.SIGSTOP)
		time.Sleep(1200 * time.Millisecond)
		_ = unix.Kill(child, unix.SIGCONT)
	})
	s.fires("ModerationSlow")
	s.look("ModerationSlow")
	limping()
	s.ends("ModerationSlow")
	stop()
	s.fires("ModerationNoTraffic")
	s.look("ModerationNoTraffic")
	s.usual()
	s.ends("ModerationNoTraffic")
}

func down(s *stage) {
	s.config("", "", "")
	s.start()
	s.monitor()
	s.pause(2 * time.Second)
	s.kill()
	s.fires("ModerationDown")
	s.refused("caddy moderation account list")
	s.look("ModerationDown", "No server answers a command")
	for range 3 {
		s.start()
		s.pause(1500 * time.Millisecond)
		s.kill()
	}
	s.start()
	s.fires("ModerationRestarts")
	s.look("ModerationRestarts")
	s.ends("ModerationDown", "ModerationRestarts")
	s.run("caddy moderation account list")
	// Another program answers like a Caddy without the modules.
	other := &http.Server{Addr: "localhost:2020", Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	go func() { _ = other.ListenAndServe() }()
	s.undo = append(s.undo, func() { _ = other.Close() })
	s.until("it listens", func() bool { status, _ := s.get("http://localhost:2020/"); return status != 0 })
	s.refused("caddy moderation --address localhost:2020 account list")
	s.refused("caddy moderation --address localhost:8080 account list")
}

func caddyItself(s *stage) {
	s.config("", "", "")
	s.start()
	s.monitor()
	s.pause(2 * time.Second)
	// A port that is taken is noticed by the server alone.
	taken, err := net.Listen("tcp", ":8443")
	s.must(err)
	s.config("", "", "http://localhost:8443 {\n respond ok\n}\n")
	s.refused("caddy reload --config " + configFile + " --force")
	s.fires("ModerationConfigReloadFailed")
	s.look("ModerationConfigReloadFailed")
	s.config("", "", "")
	s.reload()
	s.ends("ModerationConfigReloadFailed")
	plain := filepath.Join(s.folder, "plain")
	s.must(os.WriteFile(plain, []byte("{\n\tpersist_config off\n\tmetrics\n}\nhttp://localhost:8080 {\n\trespond ok\n}\n"),
		0o600))
	s.run("caddy reload --adapter caddyfile --config " + plain)
	s.fires("ModerationMissing")
	s.refused("caddy moderation account list")
	s.look("ModerationMissing")
	s.reload()
	s.ends("ModerationMissing")
	// A site whose certificate authority cannot be reached.
	s.config("acme_ca https://localhost:1/directory", "", "https://site.example.com {\n respond ok\n}\n")
	s.reload()
	s.logged("could not get certificate from issuer")
	s.look("There is no certificate")
	s.config("", "", "")
	s.reload()
	s.stop()
	s.config("", "", "http://localhost:8443 {\n respond ok\n}\n")
	s.startFails()
	s.look("A port is in use")
	if taken != nil {
		_ = taken.Close()
	}
	s.start()
}

func inUse(s *stage) {
	s.config("", "", "")
	s.start()
	text, err := os.ReadFile(configFile)
	s.must(err)
	second := filepath.Join(s.folder, "second")
	s.must(os.WriteFile(second, []byte(strings.NewReplacer(
		"persist_config off", "persist_config off\n\tadmin localhost:2020", ":8080", ":8090", ":8081", ":8091",
	).Replace(string(text))), 0o600))
	s.refused("caddy run --adapter caddyfile --config " + second)
	s.look("The directory is in use")
	s.stop()
	s.start()
	s.ready(true)
}

func guard(s *stage) {
	s.config("", "", "")
	s.start()
	s.monitor()
	stop := s.load(40*time.Millisecond, func() {
		s.comment("/guarded", harmless)
		s.comment("/strict", harmless)
		s.moderate(acmeKey, harmless)
	})
	s.pause(14 * time.Second) // yesterday
	unread := s.load(100*time.Millisecond, func() {
		for _, path := range []string{"/guarded", "/strict"} {
			s.post(path, "", "text/plain; charset=x-nosuch", "What a day")
		}
	})
	s.fires("ModerationGuardFailsOpen", "ModerationGuardFailsClosed")
	s.look("ModerationGuardFailsOpen", "ModerationGuardFailsClosed")
	unread()
	stop()
	stop = s.load(40*time.Millisecond, func() {
		s.comment("/guarded", harmful)
		s.moderate(acmeKey, harmful)
	})
	s.fires("ModerationRejectsJumped", "ModerationGuardRejectsMost")
	s.look("ModerationRejectsJumped", "ModerationGuardRejectsMost")
	stop()
	s.load(40*time.Millisecond, func() {
		s.comment("/guarded", harmless)
		s.comment("/strict", harmless)
		s.moderate(acmeKey, harmless)
	})
	s.ends("ModerationRejectsJumped", "ModerationGuardRejectsMost", "ModerationGuardFailsOpen",
		"ModerationGuardFailsClosed")
}

// key returns the key that a command has made.
func (s *stage) key(account string) string {
	return strings.TrimSpace(s.run("caddy moderation key create --account " + account + " --name runbook 2>/dev/null"))
}

func limits(s *stage) {
	s.config("", "tier small 3 2\n tier gone 0 0\n feedback {\n max_records_per_day 3\n }", "")
	s.start()
	s.monitor()
	for account, flags := range map[string]string{
		"small": "--tier small", "month": "--tier small", "paused": "--tier load", "moved": "--tier gone",
		"expired": "--tier load",
	} {
		s.run("caddy moderation account create " + account + " " + flags)
	}
	small, month, paused, gone := s.key("small"), s.key("month"), s.key("paused"), s.key("moved")
	s.run("caddy moderation account update month --requests-per-minute 0")
	s.run("caddy moderation account update paused --status paused")
	s.refused("caddy moderation account update acme --tier free")
	ok := s.load(60*time.Millisecond, func() { s.moderate(acmeKey, harmless); s.moderate(gone, harmless) })
	refusing := s.load(60*time.Millisecond, func() {
		s.moderate(small, harmless)
		s.moderate(month, harmless)
		s.suggest(acmeKey)
	})
	s.pause(2 * time.Second)
	s.fires("ModerationQuotaRefusals", "ModerationFeedbackRefused")
	s.look("ModerationQuotaRefusals", "ModerationFeedbackRefused")
	refusing()
	unknown := s.load(60*time.Millisecond, func() {
		s.moderate("mod_sk_00000000000000000000000000000000", harmless)
		s.moderate(paused, harmless)
	})
	s.fires("ModerationKeysRefused")
	s.look("ModerationKeysRefused", "A command is refused")
	unknown()
	// Without the tier.
	s.config("", "tier small 3 2\n feedback {\n max_records_per_day 3\n }", "")
	s.reload()
	s.fires("ModerationTierMissing")
	s.look("ModerationTierMissing")
	s.run("caddy moderation account update moved --tier free --requests-per-month 0 --requests-per-minute 0")
	s.ends("ModerationTierMissing", "ModerationKeysRefused", "ModerationQuotaRefusals", "ModerationFeedbackRefused")
	ok()
}

func backup(s *stage) {
	s.config("", "", "")
	s.start()
	s.monitor()
	s.fires("ModerationBackupOld")
	s.look("ModerationBackupOld")
	backups := library + "/backups"
	s.must(os.Mkdir(backups, 0o700))
	whole, cut := backups+"/whole.backup", backups+"/cut.backup"
	s.run("caddy moderation backup " + whole)
	s.ends("ModerationBackupOld")
	s.scrape()
	s.refused("caddy moderation backup " + whole)
	text, err := os.ReadFile(whole)
	s.must(err)
	if len(text) == 0 {
		s.fail("the backup is empty")
		return
	}
	s.must(os.WriteFile(cut, text[:len(text)/2], 0o600))
	restored := library + "/moderation-restored"
	s.refused("caddy moderation restore " + cut + " --dir " + restored)
	s.run("caddy moderation restore " + whole + " --dir " + restored)
	s.refused("caddy moderation restore " + whole + " --dir " + restored)
	s.must(os.Mkdir(library+"/empty", 0o700))
	s.refused("caddy moderation check " + library + "/empty")
	s.look("A backup is refused")
	// A restore that is killed while it reads leaves a mark.
	half := library + "/half"
	s.sh("{ head -c 100 " + whole + "; sleep 8; } | timeout -s KILL 4 caddy moderation restore - --dir " + half)
	s.stop()
	live, err := os.ReadFile(configFile)
	s.must(err)
	s.must(os.WriteFile(configFile, []byte(strings.Replace(string(live), data, half, 1)), 0o600))
	s.startFails()
	s.look("A restore did not finish")
	s.must(os.WriteFile(configFile, live, 0o600))
	s.start()
}

func resources(s *stage) {
	s.env = []string{"GOMEMLIMIT=48MiB", "GOMAXPROCS=1"}
	s.config("", "", "")
	s.urgent = true
	s.start()
	s.monitor()
	random := rand.New(rand.NewPCG(1, 2))
	var large strings.Builder
	for large.Len() < 900<<10 {
		for range 2 + random.IntN(7) {
			large.WriteByte('a' + byte(random.IntN(26)))
		}
		large.WriteByte(' ')
	}
	// Many at once, so that each waits for the others on any machine, and all different, so that none is remembered.
	var stops []func()
	var posted atomic.Int64
	for range 24 {
		stops = append(stops, s.load(time.Millisecond, func() {
			s.comment("/guarded", strconv.FormatInt(posted.Add(1), 36)+" "+large.String())
		}))
	}
	s.fires("ModerationMemory", "ModerationGuardSlow", "ModerationCPU")
	s.look("ModerationMemory", "ModerationGuardSlow", "ModerationCPU")
	for _, stop := range stops {
		stop()
	}
	s.ends("ModerationGuardSlow", "ModerationCPU")
	s.stop()
	s.env, s.urgent = nil, false
	s.start()
	s.ends("ModerationMemory")
}

func descriptors(s *stage) {
	s.config("", "", "")
	s.start()
	s.monitor()
	s.pause(2 * time.Second)
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.process.PID()))
	s.must(err)
	var old unix.Rlimit
	s.must(unix.Prlimit(s.process.PID(), unix.RLIMIT_NOFILE, nil, &old))
	limit := unix.Rlimit{Cur: uint64(len(entries)) + 12, Max: old.Max}
	s.must(unix.Prlimit(s.process.PID(), unix.RLIMIT_NOFILE, &limit, nil))
	var idle []net.Conn
	for range 10 {
		if conn, err := net.DialTimeout("tcp", "localhost:8081", time.Second); err == nil {
			idle = append(idle, conn)
		}
	}
	s.fires("ModerationDescriptors")
	s.look("ModerationDescriptors")
	child := s.child()
	few := unix.Rlimit{Cur: 10, Max: old.Max}
	s.must(unix.Prlimit(s.process.PID(), unix.RLIMIT_NOFILE, &few, nil))
	_ = unix.Kill(child, unix.SIGKILL)
	s.logged("no file descriptors are left")
	for _, conn := range idle {
		_ = conn.Close()
	}
	s.must(unix.Prlimit(s.process.PID(), unix.RLIMIT_NOFILE, &old, nil))
	s.ready(true)
	s.ends("ModerationDescriptors")
}

// filled starts the server, writes some records, and stops it.
func (s *stage) filled() {
	s.config("", "", "")
	s.start()
	for range 5 {
		s.moderate(acmeKey, harmless)
		s.suggest(acmeKey)
	}
	s.run("caddy moderation account create bob")
	s.stop()
}

func damage(s *stage) {
	s.filled()
	change := func(do func(*badger.Txn) error) {
		if s.failed() {
			return
		}
		db, err := badger.Open(badger.DefaultOptions(data).WithLogger(nil))
		if err != nil {
			s.fail("%w", err)
			return
		}
		s.must(errors.Join(db.Update(do), db.Close()))
	}
	// A record that is not what was written.
	change(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte("f/"), PrefetchValues: true})
		defer it.Close()
		it.Rewind()
		value, err := it.Item().ValueCopy(nil)
		if err != nil {
			return err
		}
		value[len(value)/2] ^= 1
		return txn.SetEntry(badger.NewEntry(it.Item().KeyCopy(nil), value).WithMeta(it.Item().UserMeta()))
	})
	s.start()
	s.refused("caddy moderation backup " + library + "/some.backup")
	s.refused("caddy moderation backup " + library + "/some.backup --leave-out-damaged")
	s.refused("caddy moderation feedback export")
	s.look("A record is damaged")
	s.stop()
	s.run("cp -a --sparse=always " + data + " " + library + "/kept")
	s.must(os.WriteFile(data+"/copy.sst", []byte("mine"), 0o600))
	s.startFails()
	s.must(os.Remove(data + "/copy.sst"))
	tables, err := filepath.Glob(data + "/*.sst")
	if err != nil || len(tables) == 0 {
		s.fail("there is no table: %v", err)
		return
	}
	file, err := os.OpenFile(tables[0], os.O_WRONLY, 0)
	s.must(err)
	_, err = file.WriteAt([]byte("damaged"), 20)
	s.must(errors.Join(err, file.Close()))
	s.must(os.WriteFile(data+"/DISCARD", []byte("damaged"), 0o600))
	s.startFails()
	s.look("The database is damaged")
	s.refused("caddy moderation check " + data + " --save " + library + "/rest.backup")
	s.run("caddy moderation restore " + library + "/rest.backup --dir " + library + "/moderation-restored")
	s.must(os.RemoveAll(data))
	s.must(os.Rename(library+"/kept", data))
	s.start()
	s.stop()
	change(func(txn *badger.Txn) error { return txn.Set([]byte("meta/schema"), []byte{0, 0, 0, 9}) })
	s.startFails()
	s.look("A newer version has written the database")
}

func moved(s *stage) {
	s.config("", "", "")
	s.start()
	s.usual()
	s.pause(time.Second)
	s.must(os.Rename(data, data+".away"))
	s.ready(false)
	s.logged("the database cannot be opened again; it is tried until it can")
	s.logged("the store is unavailable") // a store that is back at once does not say that it is
	s.look("The directory is gone")
	_ = os.RemoveAll(data)
	s.must(os.Rename(data+".away", data))
	s.ready(true)
	s.logged("the store is available again")
}

// inData has calls for files of the store fail while on is set.
func inData(on *atomic.Bool, errno syscall.Errno) faults.Decide {
	return func(c faults.Call) syscall.Errno {
		if on.Load() && strings.HasPrefix(c.Path(), data) {
			return errno
		}
		return 0
	}
}

func syncFails(s *stage) {
	var failing atomic.Bool
	s.supervise([]string{"fsync", "fdatasync"}, inData(&failing, unix.EIO))
	s.config("", "", "")
	s.start()
	s.usual()
	failing.Store(true)
	s.ready(false)
	s.logged("syncing the database in")
	s.look("The disk has failed")
	s.logged("the store is unavailable")
	failing.Store(false)
	s.ready(true)
	s.logged("the store is available again")
}

func readOnly(s *stage) {
	s.disk(true, 512)
	s.config("", "", "")
	s.start()
	s.moderate(acmeKey, harmless)
	s.pause(2 * time.Second) // a write would notice it with other words
	var stat unix.Stat_t
	s.must(unix.Stat(library, &stat))
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev)))
	if err == nil {
		err = os.WriteFile("/sys/fs/ext4/"+filepath.Base(device)+"/trigger_fs_error", []byte("runbook"), 0)
	}
	if err != nil && !s.failed() {
		s.skip("the file system cannot be made to fail: %v", err)
		return
	}
	s.refused("touch " + library + "/other") // the first write after the error makes it read-only
	s.ready(false)
	s.logged("takes no writes")
}

func noPrograms(s *stage) {
	var begun, failing atomic.Int64
	s.supervise([]string{"execve", "fsync", "fdatasync"}, func(c faults.Call) syscall.Errno {
		switch {
		case c.Name == "execve" && begun.Add(1) > 2: // the shell and the server
			return unix.EPERM
		case c.Name != "execve" && failing.Load() > 0 && strings.HasPrefix(c.Path(), data):
			return unix.EIO
		}
		return 0
	})
	s.config("", "", "")
	s.start()
	s.logged("the database cannot have a process of its own")
	s.usual()
	failing.Store(1)
	s.ready(false)
	s.logged("the server must be restarted")
	s.look("The store has no process of its own")
	s.kill()
	s.start()
	s.ready(true)
}

func stopped(s *stage) {
	s.config("", "", "")
	s.start()
	s.load(200*time.Millisecond, func() { s.moderate(acmeKey, harmless) })
	s.pause(time.Second)
	_ = unix.Kill(s.child(), unix.SIGSTOP)
	s.logged("the disk has not answered for")
	s.logged("the database is back")
	s.ready(true)
}

func frozen(s *stage) {
	s.disk(true, 512)
	s.config("", "", "")
	s.start()
	s.load(200*time.Millisecond, func() { s.moderate(acmeKey, harmless) })
	s.pause(time.Second)
	s.run("fsfreeze -f " + library)
	s.undo = append(s.undo, func() { s.sh("fsfreeze -u " + library) })
	s.logged("was killed and does not end")
	s.ready(false)
	s.look("The disk does not answer")
	s.run("fsfreeze -u " + library)
	s.ready(true)
	s.logged("the store is available again")
}

func starting(s *stage) {
	var seen atomic.Bool
	s.supervise([]string{"openat"}, func(c faults.Call) syscall.Errno {
		if strings.HasPrefix(c.Path(), data+"/") && seen.CompareAndSwap(false, true) {
			time.Sleep(6 * time.Second)
		}
		return 0
	})
	s.config("", "start_timeout 1s", "")
	s.launch()
	s.until("the admin endpoint answers", func() bool { _, body := s.get(admin + "/metrics"); return body != "" })
	s.refused("caddy moderation account list")
	s.look("The service is still starting")
	s.ready(true)
}

func unreadable(s *stage) {
	s.filled()
	var failing atomic.Bool
	s.supervise([]string{"openat"}, func(c faults.Call) syscall.Errno {
		if failing.Load() && strings.HasPrefix(c.Path(), data) && strings.HasSuffix(c.Path(), ".vlog") {
			return unix.EIO
		}
		return 0
	})
	failing.Store(true)
	s.startFails()
	s.look("A file of the database cannot be read")
	s.start()
	s.ready(true)
}

// oldDatabases are databases that the last version with schema 1 has written.
const oldDatabases = "storage/badger/internal/schema1/databases.tar.gz"

func upgrade(s *stage) {
	s.run("tar -xzf " + oldDatabases + " -C " + library + " closed && mv " + library + "/closed " + data)
	s.supervise([]string{"fsync", "fdatasync"}, func(c faults.Call) syscall.Errno {
		if strings.HasPrefix(c.Path(), data) && strings.HasSuffix(c.Path(), ".mem") {
			return unix.EIO
		}
		return 0
	})
	s.config("", "", "")
	s.startFails()
	s.look("The upgrade of the database stops")
	s.start()
	s.ready(true)
}

func build(s *stage) {
	s.note("%s", s.run("mkdir "+s.folder+"/build && cd "+s.folder+"/build && "+
		`printf 'module example.com/build\n\ngo 1.99\n' > go.mod && printf 'package build\n' > build.go && `+
		"{ GOTOOLCHAIN=local GOFLAGS= GOCACHE="+s.folder+"/cache go build . 2>&1 || true; }"))
	s.look("Go is too old to build")
}

// compaction lets the store write until its tables must be merged, on a disk that has no room for that.
func compaction(s *stage) {
	s.disk(true, 2048)
	s.run("fallocate -l 1400M " + library + "/other")
	s.config("", "feedback {\n max_records_per_day 0\n max_bytes_per_day 0\n }", "")
	s.start()
	var refused atomic.Bool
	var writing sync.WaitGroup
	for seed := range uint64(4) {
		writing.Go(func() {
			random := rand.New(rand.NewPCG(seed, 3))
			filler := make([]byte, 60<<10) // random, so that compression does not make it small
			for n := 0; n < 3000 && !refused.Load() && !s.failed(); n++ {
				for i := range filler {
					filler[i] = 'A' + byte(random.IntN(26)) + 32*byte(random.IntN(2))
				}
				if s.post("/api/perspective/v1alpha1/comments:suggestscore", acmeKey, "application/json",
					`{"comment":{"text":"What a day"},"context":{"entries":[{"text":"`+string(filler)+`"}]},`+
						`"attributeScores":{"TOXICITY":{"summaryScore":{"value":0.1}}}}`) == http.StatusServiceUnavailable {
					refused.Store(true)
				}
			}
		})
	}
	writing.Wait()
	s.logged("writes are refused until the database is compacted")
	s.moderate(acmeKey, harmless)
	s.ready(false)
	s.look("Writes are refused until the database is compacted")
	s.run("rm " + library + "/other")
	s.ready(true)
	s.logged("the store is available again")
}

// linger reloads with another directory while a request waits, which keeps the old store open for five minutes.
func linger(s *stage) {
	waits := make(chan struct{})
	app := &http.Server{Addr: "localhost:8099", ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-waits
		})}
	go func() { _ = app.ListenAndServe() }()
	s.undo = append(s.undo, func() { close(waits); _ = app.Close() })
	s.config("", "", "http://localhost:8082 {\n moderate {\n account acme\n }\n reverse_proxy localhost:8099\n}\n")
	s.start()
	endless := &http.Client{}
	response, err := endless.Post("http://localhost:8082/", "application/x-www-form-urlencoded",
		strings.NewReader("comment=hello"))
	s.must(err)
	if err == nil {
		defer response.Body.Close()
	}
	text, err := os.ReadFile(configFile)
	s.must(err)
	s.must(os.WriteFile(configFile, []byte(strings.Replace(string(text), data, library+"/second", 1)), 0o600))
	s.reload()
	s.look("An old store is closed under requests")
	s.pause(5*time.Minute + 10*time.Second)
	s.logged("closing a store that requests of a former configuration still use")
}
