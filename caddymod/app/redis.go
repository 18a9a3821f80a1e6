// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-moderation/caddy-moderation/caddymod/internal/placeholder"
	"github.com/caddy-moderation/caddy-moderation/caddymod/metrics"
	"github.com/caddy-moderation/caddy-moderation/storage"
	"github.com/caddy-moderation/caddy-moderation/storage/contents"
	"github.com/caddy-moderation/caddy-moderation/storage/redis"
)

func init() {
	caddy.RegisterModule(new(Redis))
}

// Redis is a storage module that keeps everything in Redis 7.0 or newer, or in Valkey, which several servers may share:
// one account then has one set of keys, limits and counts on all of them. The page on scaling says how to run it.
//
// The server is one of its own, a cluster, or the master that sentinels name. Everywhere a password is expected, and in
// addresses, global placeholders such as {env.REDIS_PASSWORD} and {file./run/secrets/redis} are replaced when the
// configuration is loaded, in memory alone. A password that stands in the configuration itself can be read through
// Caddy's admin endpoint; the log warns of it.
//
// The first start makes no account "demo", because several servers may start at once: make the first account with
// "caddy moderation account create".
//
// A reload that changes none of these options keeps the connections. One that changes any makes new ones, and the old
// ones are closed when the last request that uses them has ended. A mistake, such as a wrong password, refuses the
// start or the reload. A server that cannot be reached does not: what happens until it can be is said by outage.
//
// Syntax:
//
//	redis [<address>...] {
//		address <address>...                          # host:port, a URL redis://... or rediss://..., or unix//path
//		cluster                                       # the addresses are of nodes of a cluster
//		sentinel <master> {                           # the addresses are of sentinels
//			username <name>                           # for the sentinels themselves
//			password <password>
//		}
//		username <name>
//		password <password>
//		tls {
//			ca <file>
//			server_name <name>
//			client <certificate file> <key file>
//			insecure_skip_verify
//		}
//		database <number>                             # default 0
//		prefix <prefix>                               # of all names in the database; default mod
//		timeout <duration>                            # of one command, with its retries; default 250ms
//		pool <connections>                            # to each server; default 4
//		tracking on|off                               # default on
//		outage local|deny|allow                       # default local
//		stale_keys <duration>                         # default 15m
//		wait_replicas <number> <timeout>              # default none
//		lease <requests>                              # default 0, none
//	}
type Redis struct {
	// One or more addresses: "host:port", a URL such as "rediss://user:password@host:port/database", or
	// "unix//path". The port is 6379 unless one is given, and 26379 for sentinels. Several are those of a cluster, or of
	// sentinels. Required.
	Addresses []string `json:"addresses"`

	// Whether the addresses are of nodes of a cluster. Default: false.
	Cluster bool `json:"cluster,omitempty"`

	// The master that sentinels name, if the addresses are those of sentinels.
	Sentinel *RedisSentinel `json:"sentinel,omitempty"`

	// The name of an ACL user. Default: the user "default" of the server.
	Username string `json:"username,omitempty"`

	// The password. Default: none.
	Password string `json:"password,omitempty"`

	// How the servers are reached with TLS. An empty object stands for the certificate authorities of the system.
	// Default: without TLS, unless the scheme of an address is rediss.
	TLS *RedisTLS `json:"tls,omitempty"`

	// The number of the database; only 0 in a cluster. Default: 0.
	Database int `json:"database,omitempty"`

	// What the names of all records begin with: 1 to 20 letters, digits, '.', '_' and '-'. Services with different
	// prefixes share a database and nothing else. Default: "mod".
	Prefix string `json:"prefix,omitempty"`

	// How long a request waits for the server at most, retries included. Default: 250ms.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// The number of connections to each server that all requests share: a power of two from 1 to 256. Default: 4.
	Pool int `json:"pool,omitempty"`

	// Whether the server is asked to tell which accounts and keys have changed (client tracking). Without it, as where
	// a proxy stands before the server, a change may take a second to arrive at the other nodes. Default: true, where
	// the server offers it.
	Tracking *bool `json:"tracking,omitempty"`

	// What happens while the server cannot be reached. With "local" each node admits requests by the last known counts,
	// with its share of what was left then, and the counts are put together once the server answers again. With "deny"
	// requests are answered 503. With "allow" all are admitted, and counted once the server answers again. Default:
	// "local".
	Outage string `json:"outage,omitempty"`

	// How long accounts and keys that were used before are taken for valid while the server cannot be reached and the
	// outage is "local" or "allow". A key that is revoked meanwhile is accepted for so long by a node that is cut off.
	// Default: 15m.
	StaleKeys caddy.Duration `json:"stale_keys,omitempty"`

	// How many replicas must have a change of an account, a key or a correction before it is acknowledged. Default:
	// none.
	WaitReplicas *RedisReplicas `json:"wait_replicas,omitempty"`

	// How many requests of one account a node takes from the server at once, to admit them from memory: less waiting
	// for accounts with very many requests. No limit is exceeded, but counts may be too high by less than this for each
	// node, for about a second. Default: 0, each request is admitted by the server.
	Lease int `json:"lease,omitempty"`

	options redis.Options // placeholders replaced
	certs   []string      // digests of the files of TLS
	// exposed says that a password stands in the configuration.
	exposed bool
}

// RedisSentinel says which master the sentinels are asked for.
type RedisSentinel struct {
	// The name under which the sentinels watch the master. Required.
	Master string `json:"master"`

	// The name of an ACL user of the sentinels themselves. Default: none.
	Username string `json:"username,omitempty"`

	// The password of the sentinels themselves. Default: none.
	Password string `json:"password,omitempty"`
}

// RedisReplicas says what is waited for after a change.
type RedisReplicas struct {
	// The number of replicas, 1 or more. Required.
	Replicas int `json:"replicas"`

	// How long they are waited for, from 1ms to 1m. After it the change is refused with 503, and taken back. Required.
	Wait caddy.Duration `json:"wait"`
}

// CaddyModule returns the Caddy module information.
func (*Redis) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "moderation.storage.redis",
		New: func() caddy.Module { return new(Redis) },
	}
}

// Provision checks the options, replaces placeholders and reads the files of TLS. It reaches for no server.
func (r *Redis) Provision(caddy.Context) error {
	if err := r.check(); err != nil {
		return fmt.Errorf("the redis storage: %w", err)
	}
	if err := r.resolve(); err != nil {
		return fmt.Errorf("the redis storage: %w", err)
	}
	return nil
}

// resolve makes the options of the store.
func (r *Redis) resolve() error {
	o := redis.Options{
		Topology: r.topology(), Database: r.Database, Prefix: r.Prefix,
		Timeout: time.Duration(r.Timeout), Connections: r.Pool,
		Outage: redis.Outage(r.Outage), StaleKeys: time.Duration(r.StaleKeys), Lease: r.Lease,
		DisableCache: r.Tracking != nil && !*r.Tracking,
	}
	var err error
	if r.Sentinel != nil {
		o.Master = r.Sentinel.Master
		if o.SentinelUsername, err = r.secret("the user name of the sentinels", r.Sentinel.Username, false); err != nil {
			return err
		}
		if o.SentinelPassword, err = r.secret("the password of the sentinels", r.Sentinel.Password, true); err != nil {
			return err
		}
	}
	if o.Username, err = r.secret("username", r.Username, false); err != nil {
		return err
	}
	if o.Password, err = r.secret("password", r.Password, true); err != nil {
		return err
	}
	if r.WaitReplicas != nil {
		o.Replicas, o.ReplicaTimeout = r.WaitReplicas.Replicas, time.Duration(r.WaitReplicas.Wait)
	}
	encrypted, err := r.addAddresses(&o)
	if err != nil {
		return err
	}
	if r.TLS != nil || encrypted {
		if o.TLS, r.certs, err = r.TLS.load(); err != nil {
			return fmt.Errorf("tls: %w", err)
		}
	}
	r.options, err = o.WithDefaults()
	return err
}

// secret replaces the placeholders of an option, and notes whether a password stands in the configuration.
func (r *Redis) secret(option, text string, password bool) (string, error) {
	value, err := placeholder.Expand(text)
	if err != nil {
		return "", fmt.Errorf("%s: %w", option, err)
	}
	r.exposed = r.exposed || password && text != "" && value == text
	return value, nil
}

// addAddresses adds the addresses, and what their URLs say, to the options of the store.
func (r *Redis) addAddresses(o *redis.Options) (encrypted bool, err error) {
	for i, text := range r.Addresses {
		address, err := expandAddress(text)
		if err != nil {
			return false, fmt.Errorf("address %d: %w", i+1, err)
		}
		if i > 0 && address.TLS != encrypted {
			return false, fmt.Errorf("address %d: its scheme is another one than that of the first: all are reached "+
				"with TLS, or none is", i+1)
		}
		encrypted = address.TLS
		if err := r.addURL(o, address); err != nil {
			return false, fmt.Errorf("address %d: %w", i+1, err)
		}
		if plain, err := redis.ParseAddress(text); err == nil && plain.Password != "" && !hasPlaceholder(text) {
			r.exposed = true
		}
		o.Addresses = append(o.Addresses, address.WithPort(o.Topology))
	}
	return encrypted, nil
}

// addURL adds what the URL of an address says beside the host.
func (r *Redis) addURL(o *redis.Options, address redis.Address) error {
	for _, value := range []struct {
		name string
		of   string
		to   *string
	}{{"user name", address.Username, &o.Username}, {"password", address.Password, &o.Password}} {
		if value.of == "" {
			continue
		}
		if *value.to != "" && *value.to != value.of {
			return fmt.Errorf("its %s is another one than that of the options or of another address", value.name)
		}
		*value.to = value.of
	}
	switch {
	case address.Database > 0 && r.Cluster:
		return fmt.Errorf("it names database %d, and a cluster has only database 0", address.Database)
	case address.Database >= 0 && o.Database != 0 && address.Database != o.Database:
		return errors.New("its database is another one than that of the option or of another address")
	case address.Database > 0:
		o.Database = address.Database
	}
	if address.IsSocket() && (o.Topology != redis.Standalone || r.TLS != nil) {
		return errors.New("a socket is one server without TLS; the options cluster, sentinel and tls need host:port")
	}
	return nil
}

// hasPlaceholder reports whether a text has a placeholder.
func hasPlaceholder(text string) bool { return strings.Contains(text, "{") }

// expandAddress replaces the placeholders of an address and parses it. In a URL the values of placeholders are taken as
// they are: a password need not be written with percent signs there.
func expandAddress(text string) (redis.Address, error) {
	expand := placeholder.Expand
	if strings.Contains(text, "://") {
		expand = placeholder.ExpandInURL
	}
	expanded, err := expand(text)
	if err != nil {
		return redis.Address{}, err
	}
	address, err := redis.ParseAddress(expanded)
	if err != nil && hasPlaceholder(text) {
		return address, fmt.Errorf("%s yields what cannot be an address: %w%s", text, err, placeholder.At(text))
	}
	return address, err
}

// identityKey keeps the passwords in identities from being guessed. Identities are compared within the process alone.
var identityKey = func() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it does not fail
	return key
}()

// Identity returns the addresses with a digest of all options: a configuration in which any of them has changed, or
// the files of TLS have, makes connections of its own, and so takes effect. The digest tells nothing about the
// passwords in it.
func (r *Redis) Identity() (string, error) {
	o := r.options
	addresses := slices.Sorted(slices.Values(o.Addresses))
	secured, insecure := o.TLS != nil, false
	name := ""
	if secured {
		name, insecure = o.TLS.ServerName, o.TLS.InsecureSkipVerify
	}
	digest := hmac.New(sha256.New, identityKey)
	// The encoding of texts, numbers and lists of them does not fail.
	_ = json.NewEncoder(digest).Encode([]any{
		addresses, o.Topology, o.Master, o.Username, o.Password, o.SentinelUsername, o.SentinelPassword,
		secured, name, insecure, r.certs, o.Database, o.Prefix, o.Timeout, o.Connections, o.Outage, o.StaleKeys,
		o.Replicas, o.ReplicaTimeout, o.Lease, o.DisableCache,
	})
	return "redis:" + strings.Join(addresses, ",") + "#" + hex.EncodeToString(digest.Sum(nil)), nil
}

// leftovers have what stores could not tell their server when a reload has replaced them.
var leftovers redis.Leftovers

// Open connects to the server.
func (r *Redis) Open(_ context.Context, logger *zap.Logger) (storage.Store, error) {
	logger = logger.Named("redis")
	if r.exposed {
		logger.Warn("a password of the redis storage stands in the configuration, which everybody can read who can " +
			"reach Caddy's admin endpoint; write {env.NAME} or {file.PATH} instead")
	}
	if r.options.TLS != nil && r.options.TLS.InsecureSkipVerify {
		logger.Warn("the certificate of the redis server is not verified (insecure_skip_verify): whoever is between " +
			"can read and change everything")
	}
	options := r.options
	options.Logger, options.Observe, options.Leftovers = logger, metrics.StoreCommand, &leftovers
	store, err := redis.Open(options)
	if err != nil {
		return nil, err
	}
	return store, nil
}

// Place implements [Movable].
func (r *Redis) Place() string {
	place := "redis " + strings.Join(r.options.Addresses, ",")
	if r.options.Master != "" {
		place += ", master " + r.options.Master
	}
	if r.options.Database != 0 {
		place += ", database " + strconv.Itoa(r.options.Database)
	}
	return place + ", prefix " + r.options.Prefix
}

// SamePlace implements [Movable].
func (r *Redis) SamePlace(other Storage) bool {
	o, ok := other.(*Redis)
	return ok && r.Named(o) && r.options.Prefix == o.options.Prefix && r.options.Database == o.options.Database &&
		r.options.Master == o.options.Master
}

// Named implements [Movable]: one address in common will do.
func (r *Redis) Named(by Storage) bool {
	o, ok := by.(*Redis)
	return ok && slices.ContainsFunc(r.options.Addresses, func(address string) bool {
		return slices.Contains(o.options.Addresses, address)
	})
}

// Fill implements [Movable].
func (r *Redis) Fill(ctx context.Context, logger *zap.Logger) (contents.Target, error) {
	options := r.options
	options.Logger = logger.Named("redis")
	target, err := redis.NewTarget(ctx, options)
	if err != nil {
		return nil, err
	}
	return target, nil
}

// Reopen implements [Movable].
func (r *Redis) Reopen(ctx context.Context) error { return redis.Reopen(ctx, r.options) }

// Shared says that several servers may use the place at once. See [sharedStorage].
func (*Redis) Shared() bool { return true }

// String describes the storage without its passwords.
func (r *Redis) String() string { return "redis storage: " + r.options.String() }

// GoString is [Redis.String]: no way to print the module shows a password.
func (r *Redis) GoString() string { return r.String() }

// Interface guards
var (
	_ caddy.Provisioner = (*Redis)(nil)
	_ Movable           = (*Redis)(nil)
	_ sharedStorage     = (*Redis)(nil)
)
