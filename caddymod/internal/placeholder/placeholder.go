// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// Package placeholder replaces placeholders such as {env.NAME} and {file.PATH} in options when a configuration is
// loaded. Its errors say which placeholder yields nothing, why, and on which line of the Caddyfile it stands, if that
// can be known. They never carry a value.
package placeholder

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
)

// Expand returns text with its placeholders replaced. A placeholder that yields nothing is an error.
func Expand(text string) (string, error) {
	return expand(text, func(value string) string { return value })
}

// ExpandInURL is [Expand] for a text that is a URL: what placeholders yield stands in it as it is, whatever characters
// it has.
func ExpandInURL(text string) (string, error) {
	return expand(text, func(value string) string { return strings.ReplaceAll(url.QueryEscape(value), "+", "%20") })
}

// expand replaces placeholders by what encode makes of their values.
func expand(text string, encode func(string) string) (string, error) {
	return caddy.NewReplacer().ReplaceFunc(text, func(name string, value any) (any, error) {
		if text := caddy.ToString(value); text != "" {
			return encode(text), nil
		}
		whole := "{" + name + "}"
		return nil, fmt.Errorf("%s yields nothing: %s%s", whole, reason(name), At(whole))
	})
}

// reason says why the placeholder with a name yields nothing.
func reason(name string) string {
	kind, rest, _ := strings.Cut(name, ".")
	switch kind {
	case "env":
		return ofVariable(rest)
	case "file":
		_, err := os.ReadFile(rest)
		var failed *fs.PathError
		switch {
		case errors.As(err, &failed):
			return fmt.Sprintf("the file %s cannot be read: %v", rest, failed.Err)
		case err != nil:
			return fmt.Sprintf("the file %s cannot be read", rest)
		}
		return fmt.Sprintf("the file %s is empty", rest)
	}
	return "there is no such placeholder when a configuration is loaded"
}

// ofVariable says why an environment variable yields nothing.
func ofVariable(name string) string {
	if _, set := os.LookupEnv(name); set {
		return fmt.Sprintf("the environment variable %s is empty", name)
	}
	return fmt.Sprintf("the environment variable %s is not set", name)
}

// A configuration is JSON when it is loaded, and says nothing of the Caddyfile that it comes from. So the names of the
// Caddyfiles that were parsed in this process are kept, and an error looks up in them where a placeholder stands now.
// After "caddy reload", which parses in a process of its own, they are those that the server was started with.
var parsed struct {
	sync.Mutex
	files []string // the last one first
}

// maxFiles is how many Caddyfiles are looked through.
const maxFiles = 100

// Parsed notes that an option of this module stands in a Caddyfile.
func Parsed(file string) {
	parsed.Lock()
	defer parsed.Unlock()
	if len(parsed.files) > 0 && parsed.files[0] == file {
		return
	}
	parsed.files = slices.DeleteFunc(parsed.files, func(other string) bool { return other == file })
	parsed.files = slices.Insert(parsed.files, 0, file)
	parsed.files = parsed.files[:min(len(parsed.files), maxFiles)]
}

// At returns ", at " with the file and the line where a text stands in a Caddyfile, or "" if it is not found.
func At(text string) string {
	parsed.Lock()
	files := slices.Clone(parsed.files)
	parsed.Unlock()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for i, line := range bytes.Split(content, []byte("\n")) {
			if bytes.Contains(line, []byte(text)) && !bytes.HasPrefix(bytes.TrimSpace(line), []byte("#")) {
				return ", at " + file + ":" + strconv.Itoa(i+1)
			}
		}
	}
	return ""
}

// variable is an environment variable without a default, which Caddy replaces before it splits a Caddyfile into words.
var variable = regexp.MustCompile(`\{\$([^{}:\s]+)\}`)

// Unset says which variables of a line of a Caddyfile yield nothing, beginning with "; ", or "" if none does. An
// argument that consists of such a variable is empty, or not there at all. ok is false if the line cannot be read.
func Unset(file string, line int) (hint string, ok bool) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", false
	}
	lines := bytes.Split(content, []byte("\n"))
	if line < 1 || line > len(lines) {
		return "", false
	}
	var all []string
	for _, match := range variable.FindAllSubmatch(lines[line-1], -1) {
		if name := string(match[1]); os.Getenv(name) == "" {
			all = append(all, "; {$"+name+"} yields nothing: "+ofVariable(name))
		}
	}
	return strings.Join(all, ""), true
}
