// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"crypto/tls"
	"time"

	"go.uber.org/zap"
)

// Topology says what the addresses of a [Store] are.
type Topology string

// The topologies.
const (
	// Standalone is one server, or the name or address that always leads to the current master.
	Standalone Topology = "standalone"
	// Cluster is a Redis Cluster or Valkey Cluster; the addresses are of some of its nodes.
	Cluster Topology = "cluster"
	// Sentinel is a master that sentinels name; the addresses are of the sentinels.
	Sentinel Topology = "sentinel"
)

// Outage says how calls are admitted while the server cannot be reached.
type Outage string

// The policies for an outage.
const (
	// Local admits against the last known counts, with this node's share of what was left then, and reconciles the
	// counts once the server answers again.
	Local Outage = "local"
	// Deny refuses: methods return storage.ErrUnavailable.
	Deny Outage = "deny"
	// Allow admits everything. What was admitted is counted once the server answers again.
	Allow Outage = "allow"
)

// Options configure a [Store].
type Options struct {
	// Addresses are one or more of "host:port", or the path of a Unix socket, which begins with '/'. Required.
	Addresses []string
	// Topology says what the addresses are. Default: [Standalone].
	Topology Topology
	// Master is the name of the master that the sentinels watch. Required for [Sentinel].
	Master string
	// Username and Password are of an ACL user; a password without a user name is that of the user "default".
	Username, Password string
	// SentinelUsername and SentinelPassword are for the sentinels. Default: none.
	SentinelUsername, SentinelPassword string
	// TLS is how servers are reached. Default: without TLS.
	TLS *tls.Config
	// Database is the number of the database. 0 in a cluster. Default: 0.
	Database int
	// Prefix begins all names of the store in the database: 1 to 20 letters, digits, '.', '_' and '-'. Stores with
	// different prefixes know nothing of each other. Default: "mod".
	Prefix string
	// Timeout bounds each call, with its retries. Default: 250 ms.
	Timeout time.Duration
	// DialTimeout bounds the making of a connection. Default: 5 s.
	DialTimeout time.Duration
	// Connections is how many connections to each server share the commands: a power of two up to 256. Default: 4.
	Connections int
	// Outage says what happens to calls while the server cannot be reached. Default: [Local].
	Outage Outage
	// StaleKeys is for how long accounts and keys that were read before are taken for valid while the server cannot be
	// reached. A key that is revoked meanwhile is accepted for so long by a node that is cut off. Default: 15 minutes.
	StaleKeys time.Duration
	// Replicas is how many replicas must have a change of an account, a key or a correction before it is acknowledged,
	// and ReplicaTimeout how long that is waited for. Default: 0, none.
	Replicas       int
	ReplicaTimeout time.Duration
	// Lease is how many requests of an account a node takes from the server at once, to admit them from memory.
	// Default: 0, each request is admitted by the server.
	Lease int
	// DisableCache reads accounts and keys without server-assisted invalidation, as where a proxy stands between. A
	// node then sees a change of another node after a second at most. Default: decided when the store connects.
	DisableCache bool
	// ClientClock takes the time of a charge from its Now as it is. By default the server's clock decides which minute
	// it is, and a charge for another minute is refused with quota.ErrOtherMinute.
	ClientClock bool
	// Leftovers take what the store cannot tell its database before it is closed, for another store of this process.
	// Default: that is lost.
	Leftovers *Leftovers
	// Observe is told how long the server took to answer a command. Default: nobody is told.
	Observe func(took time.Duration)
	// Logger receives the log of the store. Default: nothing is logged.
	Logger *zap.Logger

	// before is called before each command. For tests.
	before func()
}
