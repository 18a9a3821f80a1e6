// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/caddy-moderation/caddy-moderation/storage/redis"
)

// place is where a store keeps its records, as the command line names it.
type place struct {
	// kind is the name of a storage module: badger or redis.
	kind string
	// text is what the operator wrote: a directory, or addresses with commas between them.
	text string
	// storage is the storage as in a configuration.
	storage json.RawMessage
}

// redisFlags are what the command line can say of a redis storage beside its addresses.
type redisFlags struct {
	prefix   string
	cluster  bool
	sentinel string
}

// newPlace returns the place that two words of the command line name.
func newPlace(kind, text string, flags redisFlags) (place, error) {
	p := place{kind: kind, text: text}
	var storage map[string]any
	switch kind {
	case "badger":
		dir, err := filepath.Abs(text)
		if err != nil {
			return p, err
		}
		p.text = dir
		storage = map[string]any{"module": kind, "dir": dir}
	case "redis":
		storage = map[string]any{"module": kind, "addresses": addresses(text)}
		if flags.prefix != "" {
			storage["prefix"] = flags.prefix
		}
		if flags.cluster {
			storage["cluster"] = true
		}
		if flags.sentinel != "" {
			storage["sentinel"] = map[string]any{"master": flags.sentinel}
		}
	default:
		return p, fmt.Errorf("there is no storage %q; there are badger, with a directory, and redis, with an address", kind)
	}
	var err error
	p.storage, err = json.Marshal(storage)
	return p, err
}

// addresses splits addresses.
func addresses(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// configuration is a configuration of a file.
type configuration struct {
	file string
	// json is what Caddy loads, storage the storage in it.
	json    json.RawMessage
	storage json.RawMessage
}

// readConfiguration adapts the configuration in a file: JSON if its name says so, else a Caddyfile.
func readConfiguration(file string) (c configuration, err error) {
	c.file = file
	text, err := os.ReadFile(file)
	if err != nil {
		return c, err
	}
	c.json = text
	if filepath.Ext(file) != ".json" {
		adapter := caddyconfig.GetAdapter("caddyfile")
		if adapter == nil {
			return c, errors.New("this program cannot read Caddyfiles")
		}
		if c.json, _, err = adapter.Adapt(text, map[string]any{"filename": file}); err != nil {
			return c, fmt.Errorf("%s: %w", file, err)
		}
	}
	var config struct {
		Apps struct {
			Moderation struct {
				Storage json.RawMessage `json:"storage"`
			} `json:"moderation"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(c.json, &config); err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	if c.storage = config.Apps.Moderation.Storage; c.storage == nil {
		return c, fmt.Errorf("%s names no storage in the global option moderation", file)
	}
	return c, nil
}

// place returns the place that the configuration's storage names.
func (c *configuration) place() (place, error) {
	var storage struct {
		Module    string   `json:"module"`
		Dir       string   `json:"dir"`
		Addresses []string `json:"addresses"`
	}
	if err := json.Unmarshal(c.storage, &storage); err != nil {
		return place{}, fmt.Errorf("%s: the storage: %w", c.file, err)
	}
	p := place{kind: storage.Module, text: storage.Dir, storage: c.storage}
	if storage.Module == "redis" {
		p.text = strings.Join(storage.Addresses, ",")
	}
	return p, nil
}

// check returns an error if the configuration's storage is another one than the command line names. What holds
// placeholders is known to the server alone.
func (c *configuration) check(named place) error {
	its, err := c.place()
	if err != nil {
		return err
	}
	same := its.kind == named.kind
	switch {
	case !same || strings.Contains(its.text, "{"):
	case its.kind == "badger" && its.text != "":
		dir, err := filepath.Abs(its.text)
		same = err == nil && dir == named.text
	case its.kind == "redis":
		same = slices.ContainsFunc(hosts(named.text), func(host string) bool {
			return slices.Contains(hosts(its.text), host)
		})
	}
	if !same {
		return fmt.Errorf("the storage in %s is %s %s, not %s %s", c.file, its.kind, redacted(its.text), named.kind,
			redacted(named.text))
	}
	return nil
}

// hosts returns host and port of addresses.
func hosts(text string) (hosts []string) {
	for _, address := range addresses(text) {
		parsed, err := redis.ParseAddress(address)
		if err != nil {
			continue
		}
		hosts = append(hosts, parsed.WithPort(redis.Standalone))
	}
	return hosts
}

// redacted returns a text without what may be a password in the URLs in it.
func redacted(text string) string {
	var out []string
	for _, address := range addresses(text) {
		if scheme, rest, ok := strings.Cut(address, "://"); ok {
			if _, host, ok := strings.Cut(rest, "@"); ok {
				address = scheme + "://...@" + host
			}
		}
		out = append(out, address)
	}
	if len(out) == 0 {
		return text
	}
	return strings.Join(out, ",")
}
