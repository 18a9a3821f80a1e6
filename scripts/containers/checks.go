// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Texts whose verdict is beyond doubt.
const (
	fine = "Thank you for the recipe, the cake was wonderful."
	vile = "I will find you and kill you, you worthless piece of shit."
)

// patience bounds what a container is waited for.
const patience = time.Minute

// hardened are the flags of docs/containers.md and of the compose file.
var hardened = []string{"--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--memory=1g", "--pids-limit=256"}

// image checks the image by itself.
func image(r *report, e *engine) {
	r.check("the image has the user, the volume and the health check that it should have", e.settings)
	r.check("the image holds the program, the certificates and the configuration, and no shell", e.contents)
	if _, err := e.podman("network", "create", "plain"); err != nil {
		r.check("a network is made", func() error { return err })
		return
	}
	const name = "server"
	address, key := "", ""
	if !r.check("a container starts without rights, and is healthy", func() (err error) {
		if address, err = e.start(name, "--volume=data:/data"); err != nil {
			return err
		}
		return e.healthy(name)
	}) {
		return
	}
	r.check("no account is made that nobody has asked for", func() error {
		return e.want("no account", "", "exec", name, "caddy", "moderation", "account", "list", "--json")
	})
	r.check("an account and a key are made inside", func() (err error) {
		if _, err = e.podman("exec", name, "caddy", "moderation", "account", "create", "acme", "--tier", "starter"); err != nil {
			return err
		}
		key, err = e.podman("exec", name, "caddy", "moderation", "key", "create", "--account", "acme")
		return err
	})
	r.check("the API answers on the published port", func() error { return moderate(e.ctx, address, key) })
	r.check("both processes run as the user of the image", func() error { return e.user(name) })
	r.check("a backup comes out of the container", func() error {
		backup, err := e.podman("exec", name, "caddy", "moderation", "backup", "-")
		if err == nil && len(backup) < 50 {
			err = fmt.Errorf("it has %d bytes", len(backup))
		}
		return err
	})
	r.check("a stopped container has ended well, and in time", func() error { return e.stop(name) })
	r.check("another container continues with the volume", func() error {
		if _, err := e.podman("rm", name); err != nil {
			return err
		}
		var err error
		if address, err = e.start(name, "--volume=data:/data"); err != nil {
			return err
		}
		return moderate(e.ctx, address, key)
	})
	r.check("the log holds no key", func() error {
		logs, err := e.logs(name)
		if err == nil && strings.Contains(logs, key) {
			err = errors.New("it does")
		}
		return errors.Join(err, e.remove(name))
	})
	r.check("MODERATION_DEMO=on makes the account demo, and shows its key", func() error {
		address, err := e.start(name, "--env=MODERATION_DEMO=on")
		if err != nil {
			return err
		}
		logs, err := e.logs(name)
		if err != nil {
			return err
		}
		key := regexp.MustCompile(`mod_sk_\w+`).FindString(logs)
		return errors.Join(moderate(e.ctx, address, key), e.remove(name))
	})
	r.check("a folder of the machine that belongs to another user is refused with a reason", func() error {
		folder := filepath.Join(e.folder, "owned-by-root")
		if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
		_, err := e.start(name, "--volume="+folder+":/data")
		logs, logsErr := e.logs(name)
		if err == nil || !strings.Contains(logs, "permission denied") {
			return fmt.Errorf("got the error %w and the log %s (%w), want permission denied", err, logs, logsErr)
		}
		return e.remove(name)
	})
	r.check("a folder of the machine that belongs to the user of the image works", func() error {
		folder := filepath.Join(e.folder, "owned-by-user")
		if err := errors.Join(os.Mkdir(folder, 0o700), os.Chown(folder, 65532, 65532)); err != nil {
			return err
		}
		if _, err := e.start(name, "--volume="+folder+":/data"); err != nil {
			return err
		}
		return errors.Join(e.healthy(name), e.remove(name))
	})
}

// kubernetes runs the image with the configuration, the files and the rights that the manifests give it. There is no
// cluster: what Kubernetes makes of the manifests is checked by their types, in scripts/containers/lint.
func kubernetes(r *report, e *engine) {
	const name = "pod"
	key, err := e.secret("website")
	if err != nil {
		r.check("kubernetes: a key", func() error { return err })
		return
	}
	address, metrics := "", ""
	if !r.check("kubernetes: the container starts with its configuration", func() (err error) {
		address, err = e.start(name, "--publish=127.0.0.1::9180",
			"--volume="+filepath.Join(e.root, "packaging/kubernetes/base")+":/etc/caddy:ro",
			"--volume="+filepath.Dir(key)+":/run/secrets/moderation:ro")
		if err != nil {
			return err
		}
		metrics, err = e.podman("port", name, "9180")
		return err
	}) {
		return
	}
	for _, path := range []string{"/health/live", "/health/ready"} {
		r.check("kubernetes: the probe "+path+" is answered", func() error { return get(e.ctx, address+path, 200, "") })
	}
	r.check("kubernetes: the declared account has the key of the file", func() error {
		text, err := os.ReadFile(key)
		if err != nil {
			return err
		}
		return moderate(e.ctx, address, strings.TrimSpace(string(text)))
	})
	r.check("kubernetes: the metrics' port has metrics", func() error {
		return get(e.ctx, metrics+"/metrics", 200, "caddy_moderation_requests_total")
	})
	r.check("kubernetes: the metrics' port has nothing else", func() error {
		for _, path := range []string{"/config/", "/moderation/accounts", "/stop", "/"} {
			if err := get(e.ctx, metrics+path, 200, "caddy"); err == nil {
				return fmt.Errorf("%s is answered", path)
			}
		}
		return nil
	})
	r.check("kubernetes: a pod that ends says that it is not ready, and still answers", func() error {
		if _, err := e.podman("kill", "--signal=TERM", name); err != nil {
			return err
		}
		return errors.Join(
			eventually(e.ctx, 3*time.Second, func() error { return get(e.ctx, address+"/health/ready", 503, "not ready") }),
			get(e.ctx, address+"/openapi.json", 200, "openapi"))
	})
	r.check("kubernetes: it ends well", func() error { return e.stop(name) })
}

// compose starts the compose file with podman-compose.
func compose(r *report, e *engine) {
	if _, err := exec.LookPath("podman-compose"); err != nil || !e.names {
		r.skip("compose", "podman-compose, netavark or aardvark-dns is not installed")
		return
	}
	folder := filepath.Join(e.folder, "compose")
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(e.root, "packaging/compose"))); err != nil {
		r.check("compose: a copy of the folder", func() error { return err })
		return
	}
	key := ""
	up := func(args ...string) error {
		args = append([]string{"-f", filepath.Join(folder, "compose.yaml"), "-p", "moderated"}, args...)
		_, err := e.command("podman-compose", args...)
		return err
	}
	const server, app = "moderated_moderation_1", "moderated_app_1"
	address := ""
	if !r.check("compose: the page and the guard start, and the guard is healthy", func() (err error) {
		_ = os.RemoveAll(filepath.Join(folder, "secrets"))
		file, err := e.secretIn(filepath.Join(folder, "secrets"), "api_key")
		if err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		key = string(text)
		e.env = append(e.env, "PORT=127.0.0.1:")
		if err := up("up", "-d", "--no-build"); err != nil {
			return err
		}
		if address, err = e.podman("port", server, "8080"); err != nil {
			return err
		}
		return e.healthy(server)
	}) {
		logs, _ := e.logs(server)
		fmt.Println(logs)
		return
	}
	post := func(comment string, status int, want string) error {
		return ask(e.ctx, http.MethodPost, address+"/", url.Values{"name": {"Ann"}, "comment": {comment}}.Encode(),
			"application/x-www-form-urlencoded", "", status, want)
	}
	r.check("compose: a fine comment reaches the app", func() error {
		return errors.Join(post(fine, http.StatusSeeOther, ""), get(e.ctx, address+"/", 200, "the cake was wonderful"))
	})
	r.check("compose: a vile comment does not", func() error {
		err := post(vile, http.StatusUnprocessableEntity, "content_rejected")
		if get(e.ctx, address+"/", 200, "worthless") == nil {
			err = errors.Join(err, errors.New("it is on the page"))
		}
		return err
	})
	r.check("compose: the account has the key of the secret", func() error { return moderate(e.ctx, address, key) })
	r.check("compose: an account is made by exec", func() error {
		_, err := e.podman("exec", server, "caddy", "moderation", "account", "create", "other")
		return err
	})
	r.check("compose: the app is not to be reached from outside", func() error {
		ports, err := e.podman("port", app)
		if err == nil && ports != "" {
			err = fmt.Errorf("it publishes %s", ports)
		}
		return err
	})
	r.check("compose: it stops well", func() error { return errors.Join(e.stop(server), up("down")) })
}

// settings checks what the image says of itself.
func (e *engine) settings() error {
	out, err := e.podman("image", "inspect", serverImage)
	if err != nil {
		return err
	}
	var images []struct {
		Config struct {
			User    string
			Cmd     []string
			Volumes map[string]any
			Labels  map[string]string
		}
		Healthcheck struct{ Test []string }
		Size        int64
	}
	if err := json.Unmarshal([]byte(out), &images); err != nil || len(images) != 1 {
		return fmt.Errorf("got %d images (%w)", len(images), err)
	}
	got := images[0]
	_, volume := got.Config.Volumes["/data"]
	health := strings.Join(got.Healthcheck.Test, " ")
	version := got.Config.Labels["org.opencontainers.image.version"]
	if got.Config.User != "65532:65532" || !volume || health != "CMD caddy moderation health" || version != "v0.0.0-test" ||
		len(got.Config.Cmd) == 0 || got.Config.Cmd[0] != "caddy" {
		return fmt.Errorf("got %+v", got)
	}
	if got.Size > 150e6 {
		return fmt.Errorf("it has %d MB", got.Size/1e6)
	}
	out, err = e.podman("run", "--rm", serverImage, "caddy", "version")
	if err == nil && !strings.Contains(out, "(caddy-moderation v0.0.0-test)") {
		err = fmt.Errorf("caddy version printed %q", out)
	}
	return err
}

// contents checks the files of the image: all of them are known.
func (e *engine) contents() error {
	container, err := e.command("buildah", "from", "--pull-never", serverImage)
	if err != nil {
		return err
	}
	defer func() { _, _ = e.command("buildah", "rm", container) }()
	mounted, err := e.command("buildah", "mount", container)
	if err != nil {
		return err
	}
	var got []string
	err = filepath.WalkDir(mounted, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		got = append(got, strings.TrimPrefix(path, mounted))
		return nil
	})
	want := []string{"/LICENSE", "/NOTICE", "/etc/caddy/Caddyfile", "/etc/group", "/etc/passwd",
		"/etc/ssl/certs/ca-certificates.crt", "/usr/bin/caddy", "/usr/share/zoneinfo.zip"}
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("got %q, want %q", got, want)
	}
	return err
}

// start starts a container of the server and waits until it is ready. It returns its address.
func (e *engine) start(name string, flags ...string) (address string, err error) {
	args := append([]string{"run", "--detach", "--name=" + name, "--network=plain", "--publish=127.0.0.1::8080"}, hardened...)
	if _, err := e.podman(append(append(args, flags...), serverImage)...); err != nil {
		return "", err
	}
	if address, err = e.podman("port", name, "8080"); err != nil {
		return "", err
	}
	return address, e.healthy(name)
}

// healthy waits until the health check of the image succeeds.
func (e *engine) healthy(name string) error {
	return eventually(e.ctx, patience, func() error {
		state, err := e.podman("inspect", "--format={{.State.Status}}", name)
		if err != nil || state != "running" {
			return final{fmt.Errorf("the container is %s (%w)", state, err)}
		}
		_, err = e.podman("healthcheck", "run", name)
		return err
	})
}

// stop stops a container as "docker stop" does, and wants it to end by itself.
func (e *engine) stop(name string) error {
	if _, err := e.podman("stop", "--time=30", name); err != nil {
		return err
	}
	return e.want("0", "0", "inspect", "--format={{.State.ExitCode}}", name)
}

func (e *engine) remove(name string) error {
	_, err := e.podman("rm", "--force", "--volumes", "--time=0", name)
	return err
}

// logs returns what a container has written.
func (e *engine) logs(name string) (string, error) {
	cmd := exec.CommandContext(e.ctx, "podman", "logs", name)
	cmd.Env = e.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// want wants podman to print something.
func (e *engine) want(what, want string, args ...string) error {
	got, err := e.podman(args...)
	if err == nil && got != want && !(want == "" && (got == "[]" || got == "null")) {
		err = fmt.Errorf("got %q, want %s", got, what)
	}
	return err
}

// user checks the users of the processes of a container.
func (e *engine) user(name string) error {
	out, err := e.podman("top", name, "huser", "args")
	if err != nil {
		return err
	}
	lines := strings.Split(out, "\n")[1:]
	if len(lines) != 2 {
		return fmt.Errorf("got %d processes, want the server and its store: %s", len(lines), out)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "65532 ") {
			return fmt.Errorf("got %s", line)
		}
	}
	return nil
}

// secret makes a key in a file that the user of the image can read.
func (e *engine) secret(name string) (string, error) {
	return e.secretIn(filepath.Join(e.folder, "keys"), name)
}

func (e *engine) secretIn(folder, name string) (string, error) {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // it cannot fail
	file := filepath.Join(folder, name)
	return file, errors.Join(os.MkdirAll(folder, 0o755),
		os.WriteFile(file, []byte("mod_sk_"+hex.EncodeToString(random)), 0o444))
}

// moderate asks the API for two verdicts.
func moderate(ctx context.Context, address, key string) error {
	for text, want := range map[string]string{fine: `"flagged":false,"categories"`, vile: `"flagged":true,"categories"`} {
		body, err := json.Marshal(map[string]string{"content": text})
		if err != nil {
			return err
		}
		err = ask(ctx, http.MethodPost, address+"/v1/moderate/text", string(body), "application/json", key, http.StatusOK, want)
		if err != nil {
			return err
		}
	}
	return nil
}

// get asks for a page.
func get(ctx context.Context, address string, status int, want string) error {
	return ask(ctx, http.MethodGet, address, "", "", "", status, want)
}

// ask sends a request, and wants a status and a text in the answer.
func ask(ctx context.Context, method, address, body, media, key string, status int, want string) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+address, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	if media != "" {
		request.Header.Set("Content-Type", media)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	// Redirections are not followed, and no connection outlives its container.
	client := &http.Client{
		Timeout:       30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DisableKeepAlives: true},
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != status || !bytes.Contains(answer, []byte(want))) {
		err = fmt.Errorf("%s %s: got %s %.300q, want %d and %q", method, address, response.Status, answer, status, want)
	}
	return err
}

// final is an error that no waiting mends.
type final struct{ error }

// eventually repeats what fails.
func eventually(ctx context.Context, patience time.Duration, do func() error) error {
	for deadline := time.Now().Add(patience); ; {
		err := do()
		if err == nil || errors.As(err, new(final)) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
