// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestVersions guards against a release whose version Go or Debian understands in another way.
func TestVersions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ version, debian, problem string }{
		{"v0.1.0", "0.1.0-1", ""},
		{"v1.20.3", "1.20.3-1", ""},
		{"v0.1.0-rc.1", "0.1.0~rc.1-1", ""},
		{"v0.1.0-rc.1-b", "0.1.0~rc.1-b-1", ""},
		{"0.1.0", "", "is no version"},
		{"v0.1", "", "is no version"},
		{"v01.1.0", "", "is no version"},
		{"v0.1.0-", "", "is no version"},
		{"v0.1.0-rc.01", "", "is no version"},
		{"v0.1.0+build", "", "is no version"},
		{"v0.1.0 ", "", "is no version"},
		{"v0.1.0/../..", "", "is no version"},
		{"", "", "is no version"},
		{"v2.0.0", "", "/v2"},
	} {
		err := checkVersion(test.version)
		switch {
		case test.problem == "" && err != nil:
			t.Errorf("%q: %v", test.version, err)
		case test.problem == "":
			if got := packageVersion(test.version); got != test.debian {
				t.Errorf("%q is %q in packages, want %q", test.version, got, test.debian)
			}
		case err == nil || !strings.Contains(err.Error(), test.problem):
			t.Errorf("%q: got error %v, want one with %q", test.version, err, test.problem)
		}
	}
}

// TestPackageVersionsSort guards against a pre-release that apt takes for newer than the release.
func TestPackageVersionsSort(t *testing.T) {
	t.Parallel()
	dpkg, err := exec.LookPath("dpkg")
	if err != nil {
		t.Skip("dpkg is not installed")
	}
	ascending := []string{"v0.1.0-alpha", "v0.1.0-rc.1", "v0.1.0-rc.2", "v0.1.0", "v0.1.1-rc.1", "v0.1.1", "v0.10.0"}
	for i := 1; i < len(ascending); i++ {
		a, b := packageVersion(ascending[i-1]), packageVersion(ascending[i])
		if err := exec.Command(dpkg, "--compare-versions", a, "lt", b).Run(); err != nil {
			t.Errorf("dpkg does not take %s for older than %s", a, b)
		}
	}
}

func TestChooseTargets(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ only, want, problem string }{
		{"", strings.Join(targetNames(targets), ","), ""},
		{"linux/armv7", "linux/armv7", ""},
		{"windows/amd64,linux/amd64,windows/amd64", "windows/amd64,linux/amd64", ""},
		{"linux/arm", "", `no system "linux/arm"`},
		{"linux/amd64,", "", `no system ""`},
	} {
		got, err := chooseTargets(test.only)
		if test.problem != "" {
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%q: got error %v, want one with %q", test.only, err, test.problem)
			}
			continue
		}
		if names := strings.Join(targetNames(got), ","); err != nil || names != test.want {
			t.Errorf("%q: got %q, %v; want %q", test.only, names, err, test.want)
		}
	}
}

// TestArchives guards against archives that differ from build to build, and against programs that cannot be started
// after they were unpacked.
func TestArchives(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := "top/caddy -rwxr-xr-x program\ntop/docs/api.md -rw-r--r-- page\n"
	pack := func(write func(io.Writer, string, []entry, time.Time) error) []byte {
		// Another folder, with other times, each time.
		folder := t.TempDir()
		program, page := filepath.Join(folder, "a"), filepath.Join(folder, "b")
		for path, content := range map[string]string{program: "program", page: "page"} {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		err := write(&out, "top", []entry{{name: "caddy", path: program, exec: true}, {name: "docs/api.md", path: page}}, at)
		if err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}

	packed := pack(writeTar)
	if !bytes.Equal(packed, pack(writeTar)) {
		t.Error("two .tar.gz of the same files differ")
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var got, folders string
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(at) || header.Uid != 0 || header.Gid != 0 {
			t.Errorf("%s: time %s, owner %d:%d", header.Name, header.ModTime, header.Uid, header.Gid)
		}
		if header.Typeflag == tar.TypeDir {
			folders += header.Name + " "
			continue
		}
		content, _ := io.ReadAll(archive)
		got += header.Name + " " + header.FileInfo().Mode().String() + " " + string(content) + "\n"
	}
	if got != want || folders != "top/ top/docs/ " {
		t.Errorf(".tar.gz: got\n%s%s\nwant\n%s", got, folders, want)
	}

	packed = pack(writeZip)
	if !bytes.Equal(packed, pack(writeZip)) {
		t.Error("two .zip of the same files differ")
	}
	archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	got = ""
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, _ := io.ReadAll(r)
		got += f.Name + " " + f.Mode().String() + " " + string(content) + "\n"
	}
	if got != want {
		t.Errorf(".zip: got\n%s\nwant\n%s", got, want)
	}
}

// TestSums guards against checksums that sha256sum does not understand, or that do not cover a file.
func TestSums(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"b.zip", "a.tar.gz"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeSums(folder); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(folder, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := exec.Command("sh", "-c", "cd '"+folder+"' && sha256sum a.tar.gz b.zip").Output()
	if err != nil {
		t.Skip("sha256sum is not installed")
	}
	if string(got) != string(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestRefusals guards against a release of something else than a commit, and against one that replaces another. Each
// case is refused before anything is built, and leaves nothing behind.
func TestRefusals(t *testing.T) {
	t.Parallel()
	git := func(t *testing.T, root string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", root, "-c", "user.name=test", "-c", "user.email=test@localhost",
			"-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	for _, test := range []struct {
		name, version, only string
		prepare             func(t *testing.T, root, out string)
		problem             string
	}{
		{"a changed file", "v0.1.0", "", func(t *testing.T, root, _ string) {
			if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module other\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "not committed:\n M go.mod"},
		{"a file that git does not know", "v0.1.0", "", func(t *testing.T, root, _ string) {
			if err := os.WriteFile(filepath.Join(root, "new.go"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "not committed:\n?? new.go"},
		{"a tag of another commit", "v0.1.0", "", func(t *testing.T, root, _ string) {
			git(t, root, "tag", "v0.1.0")
			git(t, root, "commit", "--allow-empty", "-m", "next")
		}, "the tag v0.1.0 is that of"},
		{"no repository", "v0.1.0", "", func(t *testing.T, root, _ string) {
			if err := os.RemoveAll(filepath.Join(root, ".git")); err != nil {
				t.Fatal(err)
			}
		}, "from a git repository"},
		{"an output that exists", "v0.1.0", "", func(t *testing.T, _, out string) {
			if err := os.Mkdir(out, 0o755); err != nil {
				t.Fatal(err)
			}
		}, "exists; a release is never written over another"},
		{"no version", "0.1.0", "", func(*testing.T, string, string) {}, "is no version"},
		{"no system", "v0.1.0", "plan9/mips", func(*testing.T, string, string) {}, `no system "plan9/mips"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			root, out := filepath.Join(folder, "checkout"), filepath.Join(folder, "out")
			if err := os.Mkdir(root, 0o755); err != nil {
				t.Fatal(err)
			}
			git(t, root, "init", "-q")
			if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module "+module+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			git(t, root, "add", "go.mod")
			git(t, root, "commit", "-q", "-m", "first")
			test.prepare(t, root, out)
			before, _ := os.ReadDir(folder)
			err := run(t.Context(), root, test.only, test.version, out)
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("got error %v, want one with %q", err, test.problem)
			}
			if after, _ := os.ReadDir(folder); len(after) != len(before) {
				t.Errorf("%d files are left, there were %d", len(after), len(before))
			}
		})
	}
}

// TestRenameExamples guards against manual pages of the package that name a command which it does not have.
func TestRenameExamples(t *testing.T) {
	t.Parallel()
	page := "caddy-moderation -\n  KEY=$(caddy moderation key create)\n\\fBcaddy-moderation moderation key create\\fP\n"
	want := "caddy-moderation - the Caddy web server with content moderation\n" +
		"  KEY=$(caddy-moderation moderation key create)\n\\fBcaddy-moderation moderation key create\\fP\n"
	if got := string(renameExamples([]byte("\n" + page))); got != "\n"+want {
		t.Errorf("got %q, want %q", got, want)
	}
}
