// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	module = "github.com/caddy-moderation/caddy-moderation"
	caddy  = "github.com/caddyserver/caddy/v2"
)

// source is what a release is built from.
type source struct {
	commit       string
	time         time.Time // of the commit; every file of the release has it
	sum          string    // of the module at the version: what go.sum of those who use it contains
	folder       string    // of the module in Go's module cache
	modCache     string    // a module cache with the module at the version
	caddyVersion string
	goVersion    string
}

// prepare checks the checkout and gets the module at the version of the release from its commit, as the go command gets
// it from GitHub when it is published: from a repository, which here is a copy of the checkout's with the tag. That
// way the program's build information names a version and a checksum, and not a folder of this machine.
func (r *release) prepare(ctx context.Context) error {
	git := func(args ...string) (string, error) {
		return r.output(ctx, r.root, nil, "git", append([]string{"-c", "safe.directory=" + r.root}, args...)...)
	}
	prefix, err := git("rev-parse", "--show-prefix")
	if err != nil {
		return fmt.Errorf("a release is built from a git repository: %w", err)
	}
	if prefix != "" {
		return fmt.Errorf("%s is not the root of a checkout", r.root)
	}
	switch dirty, err := git("status", "--porcelain"); {
	case err != nil:
		return err
	case dirty != "":
		return fmt.Errorf("the checkout has changes that are not committed:\n%s", dirty)
	}
	if r.source.commit, err = git("rev-parse", "HEAD"); err != nil {
		return err
	}
	tagged, err := git("rev-parse", "--verify", "--quiet", "refs/tags/"+r.version+"^{commit}")
	if err == nil && tagged != r.source.commit {
		return fmt.Errorf("the tag %s is that of %s, and %s is checked out", r.version, tagged, r.source.commit)
	}
	seconds, err := git("show", "--no-patch", "--format=%ct", "HEAD")
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("the time of the commit: %w", err)
	}
	r.source.time = time.Unix(n, 0).UTC()

	if r.source.goVersion, err = r.output(ctx, r.root, nil, "go", "env", "GOVERSION"); err != nil {
		return err
	}
	shared, err := r.output(ctx, r.root, nil, "go", "env", "GOMODCACHE")
	if err != nil {
		return err
	}
	r.source.caddyVersion, err = r.output(ctx, r.root, append(goEnv(), "GOFLAGS="), "go", "list", "-m", "-f", "{{.Version}}", caddy)
	if err != nil {
		return err
	}

	copied := filepath.Join(r.work, "repository.git")
	if _, err := r.output(ctx, r.work, nil, "git", "init", "--quiet", "--bare", copied); err != nil {
		return err
	}
	// Pushed, not cloned: git would not let a clone read a checkout that belongs to somebody else, as in CI.
	if _, err := git("push", "--quiet", "--no-verify", copied, "HEAD:refs/heads/release"); err != nil {
		return err
	}
	if _, err := r.output(ctx, copied, nil, "git", "tag", "--force", r.version, r.source.commit); err != nil {
		return err
	}
	// A module cache of its own: the shared one would remember the tag of an earlier rehearsal.
	cache := filepath.Join(r.work, "cache")
	env := append(goEnv(), "GOPROXY=direct", "GOMODCACHE="+cache, "GOVCS=*:git", "GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=url.file://"+copied+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+module,
		"GIT_CONFIG_KEY_1=safe.directory", "GIT_CONFIG_VALUE_1=*")
	answer, err := r.output(ctx, r.work, env, "go", "mod", "download", "-json", module+"@"+r.version)
	if err != nil {
		return err
	}
	var got struct {
		Sum, GoModSum, Dir string
		Origin             struct{ Hash string }
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		return err
	}
	if got.Origin.Hash != r.source.commit {
		return fmt.Errorf("the go command took %s for the version, not the commit %s", got.Origin.Hash, r.source.commit)
	}
	r.source.sum, r.source.folder = got.Sum, got.Dir
	r.source.modCache = filepath.Join(r.work, "modules")
	if err := linkModules(r.source.modCache, cache, shared); err != nil {
		return err
	}
	return r.writeMain(got.Sum, got.GoModSum)
}

// linkModules makes a module cache that has this project's module from one cache, and all others from the shared one,
// so that they need not be downloaded again. The module of a rehearsal must never get into the shared cache: the go
// command takes it for granted that a version has the same files for ever.
func linkModules(made, own, shared string) error {
	for _, below := range []string{"", "cache/download"} {
		to, github := filepath.Join(made, below), filepath.Join(below, "github.com")
		if err := linkAll(to, filepath.Join(shared, below), "github.com", "cache"); err != nil {
			return err
		}
		to = filepath.Join(made, github)
		if err := linkAll(to, filepath.Join(shared, github), "caddy-moderation"); err != nil {
			return err
		}
		if err := linkAll(to, filepath.Join(own, github)); err != nil {
			return err
		}
	}
	return nil
}

// linkAll puts links to all files of a folder into another, which it makes. A folder that does not exist has none.
func linkAll(to, from string, except ...string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	files, err := os.ReadDir(from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range files {
		if slices.Contains(except, f.Name()) {
			continue
		}
		if err := os.Symlink(filepath.Join(from, f.Name()), filepath.Join(to, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

// mainProgram is Caddy's own with this project's modules, as xcaddy writes it.
const mainProgram = `package main

import (
	_ "time/tzdata"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-moderation/caddy-moderation/caddymod"
)

func main() { caddycmd.Main() }
`

// helpProgram is the same under a name of choice. It prints the help that the release contains.
const helpProgram = `package main

import (
	"os"

	"github.com/caddyserver/caddy/v2"
)

func init() { caddy.CustomBinaryName = os.Getenv("CADDY_NAME") }
`

// main is the folder of the main module, and help that of the one which prints help.
func (r *release) main() string { return filepath.Join(r.work, "main") }
func (r *release) help() string { return filepath.Join(r.work, "main", "help") }

// writeMain writes the main module. It requires what this project's go.mod requires, at the same versions, so that
// nothing is chosen anew, and each module's checksum is known.
func (r *release) writeMain(sum, goModSum string) error {
	mod, err := os.ReadFile(filepath.Join(r.root, "go.mod"))
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(r.root, "go.sum"))
	if err != nil {
		return err
	}
	named := bytes.Replace(mod, []byte("module "+module+"\n"), []byte("module caddy\n"), 1)
	if bytes.Equal(named, mod) {
		return errors.New("go.mod does not name the module")
	}
	named = fmt.Appendf(named, "\nrequire %s %s\n", module, r.version)
	sums = fmt.Appendf(sums, "%[1]s %[2]s %[3]s\n%[1]s %[2]s/go.mod %[4]s\n", module, r.version, sum, goModSum)
	if err := os.MkdirAll(r.help(), 0o755); err != nil {
		return err
	}
	for path, content := range map[string][]byte{
		filepath.Join(r.main(), "go.mod"):  named,
		filepath.Join(r.main(), "go.sum"):  sums,
		filepath.Join(r.main(), "main.go"): []byte(mainProgram),
		filepath.Join(r.help(), "main.go"): []byte(mainProgram),
		filepath.Join(r.help(), "name.go"): []byte(helpProgram),
	} {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// goEnv are settings that keep a caller's environment from changing what is built.
func goEnv() []string {
	return []string{"GOFLAGS=-buildvcs=false -mod=mod -modcacherw", "GOWORK=off", "GONOSUMDB=" + module, "CGO_ENABLED=0",
		"GOEXPERIMENT=", "GOAMD64=", "GOARM64="}
}

// runTool builds a tool that tools/<modfile> requires, and runs it. It is built without the paths of this machine,
// because a list of contents names the checksum of the tool that made it.
func (r *release) runTool(ctx context.Context, modfile, tool string, args ...string) error {
	program := filepath.Join(r.work, "tools", path.Base(tool))
	if _, err := os.Stat(program); err != nil {
		env := append(goEnv(), "GOFLAGS=-buildvcs=false")
		_, err := r.output(ctx, r.root, env, "go", "build", "-trimpath",
			"-modfile="+filepath.Join(r.root, "tools", modfile), "-o", program, tool)
		if err != nil {
			return err
		}
	}
	env := append(r.moduleEnv(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.source.time.Unix(), 10))
	_, err := r.output(ctx, r.work, env, program, args...)
	return err
}

// moduleEnv is goEnv with the module cache of the release.
func (r *release) moduleEnv() []string { return append(goEnv(), "GOMODCACHE="+r.source.modCache) }

// compile builds the program of a target.
func (r *release) compile(ctx context.Context, t target) error {
	return r.goBuild(ctx, r.main(), r.binary(t), "GOOS="+t.os, "GOARCH="+t.arch, "GOARM="+t.arm)
}

// goBuild builds the package in the folder, with the flags that Caddy's releases are built with.
func (r *release) goBuild(ctx context.Context, folder, program string, env ...string) error {
	named := fmt.Sprintf("-X '%s.CustomVersion=%s (caddy-moderation %s); Caddy'", caddy, r.source.caddyVersion, r.version)
	env = append(r.moduleEnv(), env...)
	_, err := r.output(ctx, folder, env, "go", "build", "-trimpath", "-tags=nobadger,nomysql,nopgx",
		"-ldflags=-w -s "+named, "-o", program, ".")
	return err
}

// output runs a command in a folder and returns what it prints, without the last line feed. An error holds what the
// command prints to standard error.
func (r *release) output(
	ctx context.Context, folder string, env []string, name string, args ...string,
) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), env...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		text := strings.TrimSpace(problems.String() + "\n" + string(out))
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, text)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// writeHelp has the program write its manual pages and completions: those of "caddy", as the archives call it, and those
// of "caddy-moderation", as the packages do. It has to run for that, so it is built for this machine.
func (r *release) writeHelp(ctx context.Context) error {
	say("building the help")
	program := filepath.Join(r.work, "help-program")
	if err := r.goBuild(ctx, r.help(), program, "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH); err != nil {
		return err
	}
	for _, name := range []string{"caddy", "caddy-moderation"} {
		folder := r.helpFolder(name)
		// The folders of a user that does not exist: nothing of this machine gets into the help.
		env := []string{"CADDY_NAME=" + name, "SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.source.time.Unix(), 10),
			"HOME=" + folder, "XDG_DATA_HOME=", "XDG_CONFIG_HOME=", "CADDY_ADMIN=localhost:2019"}
		if _, err := r.output(ctx, r.work, env, program, "manpage", "--directory", filepath.Join(folder, "man")); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(folder, "completion"), 0o755); err != nil {
			return err
		}
		for shell, file := range map[string]string{"bash": name + ".bash", "zsh": "_" + name, "fish": name + ".fish"} {
			script, err := r.output(ctx, r.work, env, program, "completion", shell)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(folder, "completion", file), []byte(script+"\n"), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// helpFolder is where the help of a program of that name is: man and completion.
func (r *release) helpFolder(name string) string { return filepath.Join(r.work, "help", name) }
