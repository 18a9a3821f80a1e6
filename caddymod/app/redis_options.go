// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-moderation/caddy-moderation/caddymod/options"
	"github.com/caddy-moderation/caddy-moderation/storage/redis"
)

// The bounds of options.
const (
	maxRedisPool     = 256
	maxRedisDatabase = 1<<16 - 1
	maxRedisTimeout  = time.Minute
	maxRedisReplicas = 100
	maxRedisLease    = 1_000_000
)

// redisPrefix is what a prefix looks like.
var redisPrefix = regexp.MustCompile(`^[A-Za-z0-9._-]{1,20}$`)

// outages are the policies for an outage.
var outages = []string{string(redis.Local), string(redis.Deny), string(redis.Allow)}

// check returns an error when an option is out of range, or two of them contradict each other. It replaces no
// placeholders.
func (r *Redis) check() error {
	if r.Sentinel != nil && r.Sentinel.Master == "" {
		return errors.New("sentinel needs the name of the master")
	}
	if r.Outage != "" && !slices.Contains(outages, r.Outage) {
		return fmt.Errorf("outage is '%s'; it must be one of %s", r.Outage, options.List(outages))
	}
	for _, check := range []func() error{
		r.checkAddresses, r.checkTopology, r.checkDatabase, r.checkPrefix, r.checkTimeout, r.checkPool,
		r.checkStaleKeys, r.checkReplicas, r.checkLease,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	if r.TLS != nil {
		return r.TLS.check()
	}
	return nil
}

func (r *Redis) checkAddresses() error {
	if len(r.Addresses) == 0 {
		return errors.New("it needs an address, such as localhost:6379")
	}
	for _, text := range r.Addresses {
		if err := checkAddress(text); err != nil {
			return fmt.Errorf("an address is wrong: %w", err)
		}
	}
	return nil
}

// checkAddress returns an error when an address is wrong whatever its placeholders yield. The error does not repeat it,
// because it may hold a password.
func checkAddress(text string) error {
	if text == "" {
		return errors.New("it is empty")
	}
	if hasPlaceholder(text) {
		return nil
	}
	_, err := redis.ParseAddress(text)
	return err
}

// checkLiterals returns an error when addresses without placeholders contradict each other or the options.
func (r *Redis) checkLiterals() error {
	literal := func(text string) string {
		if hasPlaceholder(text) {
			return ""
		}
		return text
	}
	o := redis.Options{
		Topology: r.topology(), Username: literal(r.Username), Password: literal(r.Password), Database: r.Database,
	}
	dry := &Redis{Cluster: r.Cluster, Sentinel: r.Sentinel, TLS: r.TLS}
	for _, text := range r.Addresses {
		if hasPlaceholder(text) {
			return nil
		}
		dry.Addresses = append(dry.Addresses, text)
	}
	_, err := dry.addAddresses(&o)
	return err
}

// topology returns what the addresses are of.
func (r *Redis) topology() redis.Topology {
	switch {
	case r.Cluster:
		return redis.Cluster
	case r.Sentinel != nil:
		return redis.Sentinel
	}
	return redis.Standalone
}

func (r *Redis) checkTopology() error {
	switch {
	case r.Cluster && r.Sentinel != nil:
		return errors.New("it has both cluster and sentinel; the addresses are of one of the two")
	case len(r.Addresses) > 1 && !r.Cluster && r.Sentinel == nil:
		return fmt.Errorf("it has %d addresses; say what they are with cluster or sentinel <master>", len(r.Addresses))
	}
	return nil
}

func (r *Redis) checkDatabase() error {
	if r.Database < 0 || r.Database > maxRedisDatabase {
		return fmt.Errorf("database is '%d'; it must be a whole number from 0 to %d", r.Database, maxRedisDatabase)
	}
	if r.Database != 0 && r.Cluster {
		return fmt.Errorf("database is %d; a cluster has only database 0", r.Database)
	}
	return nil
}

func (r *Redis) checkPrefix() error {
	if r.Prefix != "" && !redisPrefix.MatchString(r.Prefix) {
		return fmt.Errorf("prefix is '%s'; it must be 1 to 20 letters, digits, '.', '_' and '-'", r.Prefix)
	}
	return nil
}

func (r *Redis) checkTimeout() error {
	if timeout := time.Duration(r.Timeout); timeout != 0 && (timeout < time.Millisecond || timeout > maxRedisTimeout) {
		return fmt.Errorf("timeout is '%s'; it must be from 1ms to 1m", timeout)
	}
	return nil
}

func (r *Redis) checkPool() error {
	if r.Pool != 0 && (r.Pool < 1 || r.Pool > maxRedisPool || r.Pool&(r.Pool-1) != 0) {
		return poolError(strconv.Itoa(r.Pool))
	}
	return nil
}

func poolError(given string) error {
	return fmt.Errorf("pool is '%s'; it must be a power of two from 1 to %d", given, maxRedisPool)
}

func (r *Redis) checkStaleKeys() error {
	if r.StaleKeys < 0 {
		return fmt.Errorf("stale_keys is '%s'; it must not be negative", time.Duration(r.StaleKeys))
	}
	return nil
}

func (r *Redis) checkReplicas() error {
	w := r.WaitReplicas
	if w == nil {
		return nil
	}
	if w.Replicas < 1 || w.Replicas > maxRedisReplicas {
		return fmt.Errorf("wait_replicas: the number is '%d'; it must be from 1 to %d", w.Replicas, maxRedisReplicas)
	}
	if timeout := time.Duration(w.Wait); timeout < time.Millisecond || timeout > maxRedisTimeout {
		return fmt.Errorf("wait_replicas: the timeout is '%s'; it must be from 1ms to 1m", timeout)
	}
	return nil
}

func (r *Redis) checkLease() error {
	if r.Lease < 0 || r.Lease > maxRedisLease {
		return fmt.Errorf("lease is '%d'; it must be a whole number from 0 to %d", r.Lease, maxRedisLease)
	}
	return nil
}

// UnmarshalCaddyfile sets up the storage from Caddyfile tokens. See [Redis] for the syntax.
func (r *Redis) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	at := map[string]caddyfile.Dispenser{"": *d}
	for d.NextArg() {
		if err := r.parseAddress(d); err != nil {
			return err
		}
	}
	mark := func(option options.Option) options.Option {
		return options.Option{Repeat: option.Repeat, Parse: func(d *caddyfile.Dispenser) error {
			at[d.Val()] = *d
			return option.Parse(d)
		}}
	}
	if err := options.Block(d, "redis", map[string]options.Option{
		"address":       mark(options.Option{Parse: r.parseAddresses, Repeat: true}),
		"cluster":       mark(options.Flag(&r.Cluster)),
		"sentinel":      mark(options.Option{Parse: r.parseSentinel}),
		"username":      options.Text(&r.Username, "<name>"),
		"password":      options.Text(&r.Password, "<password>"),
		"tls":           {Parse: r.parseTLS},
		"database":      mark(numberOption(&r.Database, "<number>", r.checkDatabase)),
		"prefix":        checked(options.Text(&r.Prefix, "<prefix>"), r.checkPrefix),
		"timeout":       checked(options.Duration(&r.Timeout), r.checkTimeout),
		"pool":          {Parse: r.parsePool},
		"tracking":      options.Switch(&r.Tracking),
		"outage":        options.Choice(&r.Outage, outages...),
		"stale_keys":    options.Duration(&r.StaleKeys),
		"wait_replicas": {Parse: r.parseReplicas},
		"lease":         numberOption(&r.Lease, "<requests>", r.checkLease),
	}); err != nil {
		return err
	}
	for _, check := range []struct {
		option string
		check  func() error
	}{
		{"", r.checkAddresses}, {"sentinel", r.checkTopology}, {"database", r.checkDatabase},
		{"address", r.checkLiterals},
	} {
		if err := check.check(); err != nil {
			place, ok := at[check.option]
			if !ok {
				place = at[""]
			}
			return place.Errf("redis: %v%s", err, options.Unset(&place))
		}
	}
	return nil
}

// parseAddress parses the argument that the dispenser is at.
func (r *Redis) parseAddress(d *caddyfile.Dispenser) error {
	text := d.Val()
	if text == "" {
		return d.Errf("redis: an address is empty%s", options.Empty(d))
	}
	if slices.Contains(r.Addresses, text) {
		return d.Errf("redis: address %d is given twice", len(r.Addresses)+1)
	}
	if err := checkAddress(text); err != nil {
		// The address is not repeated: it may hold a password.
		return d.Errf("redis: address %d is wrong: %v%s", len(r.Addresses)+1, err, options.Unset(d))
	}
	r.Addresses = append(r.Addresses, text)
	return nil
}

func (r *Redis) parseAddresses(d *caddyfile.Dispenser) error {
	if d.CountRemainingArgs() == 0 {
		return d.Errf("'address' needs at least 1 argument: address <address>...%s", options.Unset(d))
	}
	for d.NextArg() {
		if err := r.parseAddress(d); err != nil {
			return err
		}
	}
	if d.NextBlock(d.Nesting()) {
		return d.Err("'address' takes no block")
	}
	return nil
}

func (r *Redis) parseSentinel(d *caddyfile.Dispenser) error {
	args, err := options.ArgsBeforeBlock(d, "<master>")
	if err != nil {
		return err
	}
	if args[0] == "" {
		return d.Errf("sentinel: the name of the master is empty%s", options.Empty(d))
	}
	r.Sentinel = &RedisSentinel{Master: args[0]}
	return options.Block(d, "sentinel", map[string]options.Option{
		"username": options.Text(&r.Sentinel.Username, "<name>"),
		"password": options.Text(&r.Sentinel.Password, "<password>"),
	})
}

func (r *Redis) parseTLS(d *caddyfile.Dispenser) error {
	r.TLS = new(RedisTLS)
	here := *d
	if err := options.Block(d, "tls", map[string]options.Option{
		"ca":          options.Text(&r.TLS.CA, "<file>"),
		"server_name": options.Text(&r.TLS.ServerName, "<name>"),
		"client": {Parse: func(d *caddyfile.Dispenser) error {
			args, err := options.Args(d, "<certificate_file> <key_file>")
			if err != nil {
				return err
			}
			if args[0] == "" || args[1] == "" {
				return d.Errf("client: the name of a file is empty%s", options.Empty(d))
			}
			r.TLS.Certificate, r.TLS.Key = args[0], args[1]
			return nil
		}},
		"insecure_skip_verify": options.Flag(&r.TLS.InsecureSkipVerify),
	}); err != nil {
		return err
	}
	if err := r.TLS.check(); err != nil {
		return here.Err(err.Error())
	}
	return nil
}

func (r *Redis) parseReplicas(d *caddyfile.Dispenser) error {
	args, err := options.Args(d, "<number> <timeout>")
	if err != nil {
		return err
	}
	w := new(RedisReplicas)
	if w.Replicas, err = strconv.Atoi(args[0]); err != nil {
		return d.Errf("wait_replicas: the number is '%s'; it must be from 1 to %d", args[0], maxRedisReplicas)
	}
	timeout, err := caddy.ParseDuration(args[1])
	if err != nil {
		return d.Errf("wait_replicas: the timeout is '%s'; it must be a duration such as 100ms", args[1])
	}
	w.Wait = caddy.Duration(timeout)
	r.WaitReplicas = w
	return asError(d, r.checkReplicas())
}

// parsePool parses the option pool, which is not 0 where it is given.
func (r *Redis) parsePool(d *caddyfile.Dispenser) error {
	args, err := options.Args(d, "<connections>")
	if err != nil {
		return err
	}
	if r.Pool, err = strconv.Atoi(args[0]); err != nil || r.Pool == 0 {
		return d.Err(poolError(args[0]).Error())
	}
	return asError(d, r.checkPool())
}

// checked is an option whose value is checked once it is parsed.
func checked(option options.Option, check func() error) options.Option {
	return options.Option{Parse: func(d *caddyfile.Dispenser) error {
		if err := option.Parse(d); err != nil {
			return err
		}
		return asError(d, check())
	}}
}

// numberOption is an option with a whole number.
func numberOption(dst *int, syntax string, check func() error) options.Option {
	return options.Option{Parse: func(d *caddyfile.Dispenser) error {
		name := d.Val()
		args, err := options.Args(d, syntax)
		if err != nil {
			return err
		}
		if *dst, err = strconv.Atoi(args[0]); err != nil {
			return d.Errf("%s is '%s'; it must be a whole number", name, args[0])
		}
		return asError(d, check())
	}}
}

// asError adds the place in the Caddyfile to an error, which may be nil.
func asError(d *caddyfile.Dispenser, err error) error {
	if err == nil {
		return nil
	}
	return d.Err(err.Error())
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Redis)(nil)
