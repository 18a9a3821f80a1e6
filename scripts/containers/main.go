// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Command containers builds the images of packaging/ with buildah, which needs no daemon, and runs them with podman as
// docs/containers.md says: the image by itself, the compose file, and the container of the Kubernetes manifests with
// its configuration. Run it in the root of the repository, as root:
//
//	apt-get install --no-install-recommends buildah podman runc netavark aardvark-dns iptables podman-compose
//	go run ./scripts/containers
//
// It prints a line for each check and exits with status 1 if one failed; what the machine lacks is skipped with a line.
// No image is downloaded: in place of the one with Go stands one with this machine's Go, its programs and its module
// cache. Images, volumes and networks are kept apart from those of the machine, and are removed at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	strict := flag.Bool("strict", false, "count what is skipped as failed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *strict)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "containers:", err)
		os.Exit(1)
	}
}

// report counts the checks and prints them.
type report struct{ passed, failed, skipped int }

// check makes one check.
func (r *report) check(what string, do func() error) bool {
	err := do()
	if err != nil {
		r.failed++
		fmt.Printf("FAIL: %s: %s\n", what, strings.Join(strings.Fields(err.Error()), " "))
		return false
	}
	r.passed++
	fmt.Printf("ok: %s\n", what)
	return true
}

func (r *report) skip(what, why string) {
	r.skipped++
	fmt.Printf("skip: %s: %s\n", what, strings.Join(strings.Fields(why), " "))
}

func run(ctx context.Context, strict bool) error {
	r := &report{}
	e, why, err := newEngine(ctx)
	if err != nil {
		return err
	}
	if e != nil {
		defer e.close()
	}
	switch {
	case why != "":
		r.skip("all", why)
	case r.check("the Dockerfile builds", e.buildServer) && r.check("the app's Dockerfile builds", e.buildApp):
		image(r, e)
		kubernetes(r, e)
		compose(r, e)
	}
	fmt.Printf("%d ok, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	if r.failed > 0 || strict && r.skipped > 0 {
		return errors.New("not everything holds")
	}
	return nil
}

// engine builds and runs containers, with a store of its own.
type engine struct {
	ctx    context.Context
	root   string // of the repository
	folder string // for everything that is made
	env    []string
	names  bool // whether containers find each other by their names
}

// The names of the images, as packaging/compose/compose.yaml has them, and of what stands in for the one with Go.
const (
	serverImage = "localhost/caddy-moderation"
	appImage    = "localhost/moderated-comments-app"
	goImage     = "localhost/go"
)

// newEngine returns an engine. If the machine lacks something, why says what.
func newEngine(ctx context.Context) (e *engine, why string, err error) {
	if os.Geteuid() != 0 {
		return nil, "only root may make containers here", nil
	}
	for _, needed := range []string{"buildah", "podman"} {
		if _, err := exec.LookPath(needed); err != nil {
			return nil, needed + " is not installed", nil
		}
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, "", err
	}
	folder, err := os.MkdirTemp("", "caddy-moderation-containers-")
	if err != nil {
		return nil, "", err
	}
	e = &engine{ctx: ctx, root: root, folder: folder}
	for _, place := range []string{"/usr/lib/podman/", "/usr/libexec/podman/"} {
		_, errNetwork := os.Stat(place + "netavark")
		_, errNames := os.Stat(place + "aardvark-dns")
		e.names = e.names || errNetwork == nil && errNames == nil
	}
	if err := e.stage(); err != nil {
		return e, "", err
	}
	// Which runtime works depends on the machine's control groups.
	var refusals []string
	for _, runtime := range []string{"runc", "crun"} {
		if err := e.configure(runtime); err != nil {
			return e, "", err
		}
		_, err := e.podman("run", "--rm", "--volume=/usr:/usr:ro", goImage, "/usr/bin/true")
		if err == nil {
			return e, "", nil
		}
		refusals = append(refusals, err.Error())
	}
	return e, "no container runs on this machine: " + strings.Join(refusals, "; "), nil
}

// configure writes the settings of buildah and podman.
func (e *engine) configure(runtime string) error {
	backend := ""
	if e.names {
		backend = `network_backend = "netavark"`
	}
	files := map[string]string{
		// The limits are low enough for machines that may not raise theirs.
		"containers.conf": fmt.Sprintf("[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1000:1000\"]\n"+
			"[engine]\nruntime = %q\nevents_logger = \"file\"\n[network]\n%s\nnetwork_config_dir = %q\n",
			runtime, backend, filepath.Join(e.folder, "networks")),
		"storage.conf": fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = %q\nrunroot = %q\n",
			filepath.Join(e.folder, "store"), filepath.Join(e.folder, "run")),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(e.folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	e.env = append(os.Environ(), "CONTAINERS_CONF="+filepath.Join(e.folder, "containers.conf"),
		"CONTAINERS_STORAGE_CONF="+filepath.Join(e.folder, "storage.conf"))
	return nil
}

// close ends and removes everything.
func (e *engine) close() {
	if e.env != nil {
		e.ctx = context.WithoutCancel(e.ctx)
		_, _ = e.podman("rm", "--all", "--force", "--time=0")
		_, _ = e.podman("volume", "rm", "--all", "--force")
		_, _ = e.podman("network", "prune", "--force")
		_, _ = e.command("buildah", "rm", "--all")
		_, _ = e.podman("rmi", "--all", "--force")
		// The folder of the layers is mounted on itself.
		_, _ = e.command("umount", filepath.Join(e.folder, "store", "overlay"))
	}
	if err := os.RemoveAll(e.folder); err != nil {
		fmt.Fprintln(os.Stderr, "containers: cleaning up:", err)
	}
}

// podman runs podman and returns its standard output.
func (e *engine) podman(args ...string) (string, error) { return e.command("podman", args...) }

// command runs a program and returns its standard output.
func (e *engine) command(name string, args ...string) (string, error) {
	cmd := exec.CommandContext(e.ctx, name, args...)
	cmd.Env, cmd.Dir = e.env, e.root
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		// Without systemd podman complains with each container that it cannot watch its health.
		var told []string
		for line := range strings.Lines(errs.String()) {
			if !strings.Contains(line, "systemd") && !strings.Contains(line, "connect to syslog") {
				told = append(told, line)
			}
		}
		return string(out), fmt.Errorf("%s %s: %w: %s%s", name, strings.Join(args[:min(3, len(args))], " "), err,
			strings.Join(told, ""), out)
	}
	return strings.TrimSpace(string(out)), nil
}

// stage makes the image that stands in for the one with Go: no programs, only what COPY takes from it. The programs are
// this machine's, mounted while it builds.
func (e *engine) stage() error {
	if err := e.configure("runc"); err != nil {
		return err
	}
	context := filepath.Join(e.folder, "go")
	certificates, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		return err
	}
	files := map[string]string{
		"etc/ssl/certs/ca-certificates.crt": string(certificates),
		"etc/passwd":                        "root:x:0:0:root:/root:/bin/sh\n",
		"etc/group":                         "root:x:0:\n",
		"root/.keep":                        "",
		"tmp/.keep":                         "",
	}
	for name, text := range files {
		name = filepath.Join(context, "root", name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+name, filepath.Join(context, "root", name)); err != nil {
			return err
		}
	}
	path, err := exec.LookPath("go")
	if err != nil {
		return err
	}
	dockerfile := filepath.Join(context, "Dockerfile")
	text := "FROM scratch\nCOPY root /\nENV PATH=" + filepath.Dir(path) + ":/usr/bin:/bin\n"
	if err := os.WriteFile(dockerfile, []byte(text), 0o600); err != nil {
		return err
	}
	_, err = e.command("buildah", "build", "--isolation=chroot", "--tag="+goImage, "--file="+dockerfile, context)
	return err
}

// buildServer builds packaging/docker/Dockerfile.
func (e *engine) buildServer() error {
	return e.build(serverImage, "packaging/docker/Dockerfile", ".", "--build-arg=VERSION=v0.0.0-test")
}

// buildApp builds the app of the compose file.
func (e *engine) buildApp() error {
	return e.build(appImage, "packaging/compose/app/Dockerfile", "packaging/compose/app")
}

// build builds a Dockerfile.
func (e *engine) build(image, dockerfile, context string, more ...string) error {
	about, err := e.command("go", "env", "GOOS", "GOARCH", "GOROOT", "GOMODCACHE", "GOCACHE")
	if err != nil {
		return err
	}
	values := strings.Fields(about)
	if len(values) != 5 {
		return fmt.Errorf("go env printed %q", about)
	}
	args := []string{
		"build", "--isolation=chroot", "--format=docker", "--pull-never", "--tag=" + image, "--file=" + dockerfile,
		"--build-arg=GO_IMAGE=" + goImage, "--build-arg=TARGETOS=" + values[0], "--build-arg=TARGETARCH=" + values[1],
		"--volume=/usr:/usr:ro", "--volume=" + values[3] + ":/go/pkg/mod", "--volume=" + values[4] + ":/root/.cache/go-build",
	}
	if !strings.HasPrefix(values[2], "/usr/") {
		args = append(args, "--volume="+values[2]+":"+values[2]+":ro")
	}
	_, err = e.command("buildah", append(append(args, more...), context)...)
	return err
}
