// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// composeFolder holds the compose file.
const composeFolder = root + "/packaging/compose"

// loadCompose loads a compose file as Docker Compose does: by the schema of the specification, with warnings as errors.
func loadCompose(ctx context.Context, text string) (*types.Project, error) {
	folder, err := filepath.Abs(composeFolder)
	if err != nil {
		return nil, err
	}
	return loader.LoadWithContext(ctx, types.ConfigDetails{
		WorkingDir:  folder,
		ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: []byte(text)}},
		Environment: types.Mapping{},
	}, func(o *loader.Options) { o.SkipNormalization = false })
}

// looseEnds returns what compose accepts and what is not meant: services with more rights than they need, and files that
// are not there.
func looseEnds(project *types.Project) (found []string) {
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for name, s := range project.Services {
		if !s.ReadOnly {
			add("%s: its file system can be written", name)
		}
		if !slices.Equal(s.CapDrop, []string{"ALL"}) {
			add("%s: it keeps capabilities", name)
		}
		if !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			add("%s: it may gain privileges", name)
		}
		if s.MemLimit == 0 || s.PidsLimit == 0 {
			add("%s: it has no limits", name)
		}
		if s.Restart != types.RestartPolicyUnlessStopped {
			add("%s: it does not start with the machine", name)
		}
		if s.Privileged || s.NetworkMode != "" || s.Pid != "" {
			add("%s: it is not contained", name)
		}
		if s.Build != nil {
			if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
				add("%s: no Dockerfile: %v", name, err)
			}
		}
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if info, err := os.Stat(v.Source); err != nil || !info.Mode().IsRegular() || !v.ReadOnly {
				add("%s: %s is mounted: %v, read-only %v", name, v.Source, err, v.ReadOnly)
			}
		}
		for variable := range s.Environment {
			add("%s: the variable %s; secrets belong into files", name, variable)
		}
	}
	if app := project.Services["app"]; len(app.Ports) > 0 || len(app.Networks) != 1 {
		add("app: it can be reached past the guard")
	}
	for name := range project.Services["app"].Networks {
		if !project.Networks[name].Internal {
			add("app: its network %s leads to the world", name)
		}
	}
	slices.Sort(found)
	return found
}

func composeText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(composeFolder, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCompose(t *testing.T) {
	t.Parallel()
	project, err := loadCompose(t.Context(), composeText(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range looseEnds(project) {
		t.Error(found)
	}
	// What the Caddyfile beside it counts on.
	caddyfile, err := os.ReadFile(filepath.Join(composeFolder, "Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	guard := project.Services["moderation"]
	for _, secret := range guard.Secrets {
		if want := "{file./run/secrets/" + secret.Source + "}"; !strings.Contains(string(caddyfile), want) {
			t.Errorf("Caddyfile: got no %s, want the secret in use", want)
		}
	}
	if len(guard.Secrets) != 1 || len(guard.Ports) != 1 {
		t.Fatalf("got the secrets %v and the ports %v, want one of each", guard.Secrets, guard.Ports)
	}
	if want := fmt.Sprintf(":%d {", guard.Ports[0].Target); !strings.Contains(string(caddyfile), "\n"+want) {
		t.Errorf("Caddyfile: got no site %s, want one on the published port", want)
	}
	grace := *guard.StopGracePeriod
	if want := "grace_period 20s"; !strings.Contains(string(caddyfile), want) || grace.String() != "30s" {
		t.Errorf("got stop_grace_period %s, want 30s, and %s in the Caddyfile", grace, want)
	}
}

// TestBadCompose: each slip is noticed.
func TestBadCompose(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ old, replacement, want string }{
		"unknown member":     {"read_only:", "readonly:", "services.moderation.readonly"},
		"wrong type":         {"cap_drop: [ALL]", "cap_drop: ALL", "cap_drop"},
		"unknown secret":     {"secrets: [api_key]", "secrets: [api_kay]", "api_kay"},
		"unknown network":    {"networks: [back]", "networks: [bakc]", "bakc"},
		"unknown volume":     {"- moderation:/data", "- moderations:/data", "moderations"},
		"unknown service":    {"depends_on: [app]", "depends_on: [apps]", "apps"},
		"writable":           {"read_only: true", "read_only: false", "its file system can be written"},
		"capabilities":       {"cap_drop: [ALL]", "cap_drop: [CHOWN]", "it keeps capabilities"},
		"privileges":         {"no-new-privileges:true", "label:disable", "it may gain privileges"},
		"no limit":           {"mem_limit: 64m", "", "app: it has no limits"},
		"missing file":       {"./Caddyfile:", "./Caddyfil:", "Caddyfil"},
		"missing folder":     {"build: ./app", "build: ./apps", "no Dockerfile"},
		"a way past":         {"networks: [back]", "networks: [back]\n    ports: ['3000:3000']", "past the guard"},
		"a way out":          {"internal: true", "internal: false", "leads to the world"},
		"key in the open":    {"stop_grace_period: 30s", "environment: {KEY: x}", "secrets belong into files"},
		"the host's network": {"networks: [front, back]", "network_mode: host", "it is not contained"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := composeText(t)
			if !strings.Contains(text, row.old) {
				t.Fatalf("compose.yaml: got no %q, want it to replace it", row.old)
			}
			var got string
			project, err := loadCompose(t.Context(), strings.Replace(text, row.old, row.replacement, 1))
			if err != nil {
				got = err.Error()
			} else {
				got = strings.Join(looseEnds(project), "\n")
			}
			if !strings.Contains(got, row.want) {
				t.Errorf("got %q, want %q in it", got, row.want)
			}
		})
	}
}
