// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

// The commands that the user of a store must be allowed to run, in the words of an ACL, on names that begin with the
// prefix and a colon. Nothing else is needed; see the package comment.
const (
	LeastRights = "+ping +eval +evalsha +client|tracking +client|caching " +
		"+exists +unlink +rename +persist +pexpire +time +get +getrange +set " +
		"+hget +hmget +hscan +hgetall +hkeys +hlen +hexists +hset +hsetnx +hincrby +hdel " +
		"+zadd +zrem +zrange +zcount +zremrangebyscore " +
		"+xadd +xdel +xrange +xack +xreadgroup +xgroup|create +xgroup|destroy "
	// ClusterRights are needed beside them in a cluster.
	ClusterRights = "+cluster|slots +cluster|shards +asking "
	// SentinelRights are needed beside them with sentinels, on the master.
	SentinelRights = "+role "
	// ReplicaRights are needed beside them to wait for replicas.
	ReplicaRights = "+wait "
	// DatabaseRights are needed beside them for another database than 0.
	DatabaseRights = "+select "
	// BackupRights are needed beside them for a backup and for a migration.
	BackupRights = "+client|pause +client|unpause +scan +zscore +xlen "
)
