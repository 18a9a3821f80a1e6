// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package lint checks the files for containers without a container engine: Dockerfiles with BuildKit's own checks
// ("docker build --check"), the compose file with the library that Docker Compose loads it with, and the manifests with
// Kubernetes' types and its standards for pods. It is a module of its own because these libraries have many
// dependencies.
package lint

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerui"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
)

// root is the root of the repository.
const root = "../../.."

// lintDockerfile returns what BuildKit has against a Dockerfile.
func lintDockerfile(t *testing.T, text string) (findings []string) {
	t.Helper()
	source := llb.NewSourceMap(nil, "Dockerfile", "Dockerfile", []byte(text))
	source.Definition = new(llb.Definition) // it is not read from anywhere
	platform := &ocispecs.Platform{OS: "linux", Architecture: "amd64"}
	results, err := dockerfile2llb.DockerfileLint(t.Context(), []byte(text), dockerfile2llb.ConvertOpt{
		Config: dockerui.Config{
			BuildPlatforms:  []ocispecs.Platform{*platform},
			TargetPlatforms: []ocispecs.Platform{{OS: "linux", Architecture: "arm64"}},
		},
		TargetPlatform: &ocispecs.Platform{OS: "linux", Architecture: "arm64"},
		SourceMap:      source,
		MetaResolver:   anyImage{},
		Warn: func(rule, _, _, message string, at []parser.Range) {
			line := 0
			if len(at) > 0 {
				line = at[0].Start.Line
			}
			findings = append(findings, fmt.Sprintf("line %d: %s: %s", line, rule, message))
		},
	})
	if err != nil {
		return append(findings, err.Error())
	}
	for _, warning := range results.Warnings {
		findings = append(findings, warning.RuleName+": "+warning.Detail)
	}
	if results.Error != nil {
		findings = append(findings, results.Error.Message)
	}
	return findings
}

// anyImage resolves every image, without asking a registry.
type anyImage struct{}

func (anyImage) ResolveImageConfig(_ context.Context, ref string, _ sourceresolver.Opt,
) (string, digest.Digest, []byte, error) {
	config := []byte(`{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/usr/bin:/bin"]}}`)
	return ref, digest.FromBytes(config), config, nil
}

func TestDockerfiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"docker/Dockerfile", "compose/app/Dockerfile"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join(root, "packaging", name))
			if err != nil {
				t.Fatal(err)
			}
			for _, finding := range lintDockerfile(t, string(text)) {
				t.Error(finding)
			}
			// What BuildKit does not ask for.
			for _, line := range []string{"FROM scratch", "USER 65532:65532"} {
				if !slices.Contains(strings.Split(string(text), "\n"), line) {
					t.Errorf("got no line %q, want the image without a system and its program without root", line)
				}
			}
		})
	}
}

// TestBadDockerfiles: the check above would pass anything if BuildKit were called wrongly.
func TestBadDockerfiles(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ text, want string }{
		"no such instruction": {"FROM scratch\nCOPPY a b\n", "COPPY"},
		"no such flag":        {"FROM scratch\nCOPY --fromm=x a b\n", "fromm"},
		"shell form":          {"FROM golang\nCMD caddy run\n", "JSONArgsRecommended"},
		"secret":              {"FROM golang\nARG API_KEY=1\n", "SecretsUsedInArgOrEnv"},
		"undefined variable":  {"FROM golang\nCOPY $FOO .\n", "UndefinedVar"},
		"relative folder":     {"FROM scratch\nWORKDIR src\n", "WorkdirRelativePath"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(lintDockerfile(t, row.text), "\n"); !strings.Contains(got, row.want) {
				t.Errorf("got the findings %q, want one with %q", got, row.want)
			}
		})
	}
}
