// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Mask is what stands in the place of a secret.
const Mask = "***"

// Masked returns the app's configuration as it runs, with its defaults, as JSON without secrets: keys and their hashes,
// passwords, and the user information and the query of URLs are replaced by [Mask], also where they are placeholders.
// Of a storage or a classifier that is not of this project only the name is told, because nobody knows which of its
// options are secret.
func (a *App) Masked() (json.RawMessage, error) {
	shown := map[string]any{}
	if err := remarshal(&plainApp{
		KeyPrefix: a.KeyPrefix, Tiers: a.Tiers, Thresholds: a.Thresholds, RejectLevels: a.RejectLevels,
		HarmShare: a.HarmShare, Feedback: a.Feedback, Accounts: a.Accounts, Demo: a.Demo, StartTimeout: a.StartTimeout,
		Review: a.Review.masked(),
	}, &shown); err != nil {
		return nil, err
	}
	// Accounts and keys are named by people, and their names may hold anything but are no secrets.
	maskNamed(shown)
	modules := map[string]any{"classifier": a.classifier}
	if a.storage != nil {
		modules["storage"] = a.storage
	}
	for name, module := range modules {
		options, err := maskedModule(module)
		if err != nil {
			return nil, err
		}
		if options != nil {
			shown[name] = options
		}
	}
	return json.Marshal(shown)
}

// masked returns the options without the paths of webhooks, which are often secrets.
func (o *ReviewOptions) masked() *ReviewOptions {
	if o == nil {
		return nil
	}
	shown := *o
	shown.Webhooks = slices.Clone(o.Webhooks)
	for i := range shown.Webhooks {
		scheme, rest, _ := strings.Cut(shown.Webhooks[i].URL, "://")
		host, _, _ := strings.Cut(rest, "/")
		shown.Webhooks[i].URL = scheme + "://" + host + "/" + Mask
	}
	return &shown
}

// plainApp is [App] as JSON alone: Caddy's own fields and the modules are left out.
type plainApp App

// moduleName names a module of Caddy by the end of its id, such as "redis".
type moduleName interface{ name() string }

func (*Badger) name() string   { return "badger" }
func (*Redis) name() string    { return "redis" }
func (*Embedded) name() string { return "embedded" }

// maskedModule returns the options of a module with its name, without secrets; nil for none.
func maskedModule(module any) (map[string]any, error) {
	if module == nil {
		return nil, nil
	}
	known, ok := module.(moduleName)
	if !ok {
		return map[string]any{"module": strings.TrimPrefix(fmt.Sprintf("%T", module), "*"), "options": Mask}, nil
	}
	options := map[string]any{}
	if err := remarshal(known, &options); err != nil {
		return nil, err
	}
	maskNamed(options)
	options["module"] = known.name()
	return options, nil
}

// remarshal turns a value into the general types of JSON.
func remarshal(from, into any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encoding the configuration: %w", err)
	}
	return json.Unmarshal(text, into)
}

// secretMember matches the names of members whose values are masked, whatever they hold.
var secretMember = regexp.MustCompile(`(?i)^(key|former_keys)$|pass|secret|token|hash|credential|private`)

// maskNamed masks the secrets in a value, in place where it can, and returns it.
func maskNamed(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Collect(maps.Keys(value)) {
			if text, ok := value[name].(string); ok && text != "" && secretMember.MatchString(name) {
				value[name] = Mask
				continue
			}
			if texts, ok := value[name].([]any); ok && secretMember.MatchString(name) {
				for i := range texts {
					if _, isText := texts[i].(string); isText {
						texts[i] = Mask
					}
				}
			}
			value[name] = maskNamed(value[name])
		}
	case []any:
		for i := range value {
			value[i] = maskNamed(value[i])
		}
	case string:
		return maskText(value)
	}
	return value
}

// maskText masks what may be secret in a text: all of a hash, and the user information, the query and the fragment of a
// URL. A URL need not be well-formed: a password may hold any character.
func maskText(text string) string {
	if strings.HasPrefix(text, hashPrefix) {
		return Mask
	}
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		return text
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = Mask + rest[at:]
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i+1] + Mask
	}
	return scheme + "://" + rest
}
