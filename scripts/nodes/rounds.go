// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import "time"

// The promises, in the words of docs/scaling.md.
const (
	isExact      = "With a limit of N, exactly N requests are admitted over all nodes while the store answers."
	nodeDies     = "A node that dies takes nothing with it that was acknowledged."
	storeReturns = "A store that keeps its data returns with everything that was acknowledged, " +
		"also what was admitted meanwhile."
	masterDies = "When a master dies, what was answered in the last second before may be lost, and nothing older; " +
		"service is back within 5 seconds, and with wait_replicas no revocation and no correction is lost."
	lagIsLost    = "A replica that becomes the master has lost what it was behind, and nothing else."
	waitedIsKept = "With wait_replicas, no change of a key or an account and no correction is lost " +
		"that was acknowledged."
	revokedSoon  = "A revoked key is refused by every node within 100 ms."
	revokedLater = "Without client tracking, a revoked key is refused by every node after a second at most."
	outageIsOver = "Whatever happens to the store, nodes go on as outage says, and when it is over " +
		"nothing is counted twice and nothing that was acknowledged is lost."
	onlyOnce      = "A request whose answer from the store is lost is sent again and counts once."
	slotsMayMove  = "Slots may move while requests run."
	emptiedIsSaid = "A store that was emptied is noticed, and no key is taken for unknown because of it."
	tooOld        = "A store of an older version than Redis 7.0 is refused at the start."
	mistakesSaid  = "A mistake that the store's servers tell is refused at the start, with a sentence that helps."
	mayBeAway     = "A store that cannot be reached at the start does not keep a node from starting."
	clocksDiffer  = "The clocks of the nodes may differ: the store's clock decides."
	cutOff        = "A node that is cut off does what outage says, and the other nodes are not affected."
	reloadKeeps   = "A reload with the same store keeps its connections and every count."
	storeMoves    = "After a reload with another store, requests in flight are counted in the old one."
	backupHolds   = "A backup holds everything that was acknowledged before it began."
	allIsMoved    = "A migration of one running server loses nothing and counts nothing twice."
	leasesBound   = "With leases, no limit is exceeded, and a count is too high by less than a block for each node."
	manyAccounts  = "10,000 accounts with 100,000 keys are listed and used."
)

var rounds = []*round{
	{name: "exact", promise: isExact, quick: true, run: exact(setup{})},
	{name: "exact-cluster", promise: isExact, run: exact(setup{topology: cluster})},
	{name: "exact-moving", promise: isExact, quick: true, run: exactWhileSlotsMove},
	{name: "exact-sentinel", promise: isExact, run: exact(setup{topology: sentinel})},
	{name: "kill-node", promise: nodeDies, quick: true, run: killNode(standalone)},
	{name: "kill-node-cluster", promise: nodeDies, run: killNode(cluster)},
	{name: "stop-node", promise: nodeDies, quick: true, run: stopNode},
	{name: "restart-store", promise: storeReturns, quick: true, run: restartStore},
	{name: "failover-sentinel", promise: masterDies, quick: true, alone: true,
		run: failover(setup{topology: sentinel})},
	{name: "failover-cluster", promise: masterDies, quick: true, alone: true,
		run: failover(setup{topology: cluster})},
	{name: "failover-lagging", promise: lagIsLost, quick: true, run: lagging(false)},
	{name: "failover-waiting", promise: waitedIsKept, run: lagging(true)},
	{name: "revoke", promise: revokedSoon, quick: true, alone: true, run: revocation(100 * time.Millisecond)},
	{name: "revoke-untracked", promise: revokedLater, alone: true,
		run: revocation(1500*time.Millisecond, "tracking off")},
	{name: "store-hangs", promise: outageIsOver, quick: true, run: harmed(setup{}, hangs)},
	{name: "store-hangs-deny", promise: outageIsOver, run: harmed(setup{outage: "deny"}, hangs)},
	{name: "store-hangs-allow", promise: outageIsOver, run: harmed(setup{outage: "allow"}, hangs)},
	{name: "store-refuses", promise: outageIsOver, quick: true, run: harmed(setup{proxied: true}, refuses)},
	{name: "store-refuses-deny", promise: outageIsOver, run: harmed(setup{proxied: true, outage: "deny"}, refuses)},
	{name: "store-refuses-allow", promise: outageIsOver, run: harmed(setup{proxied: true, outage: "allow"}, refuses)},
	{name: "store-slow", promise: outageIsOver, quick: true, run: harmed(setup{proxied: true}, slow)},
	{name: "store-very-slow", promise: outageIsOver, quick: true, run: harmed(setup{proxied: true}, verySlow)},
	{name: "store-narrow", promise: outageIsOver, run: harmed(setup{proxied: true}, narrow)},
	{name: "store-oom", promise: outageIsOver, quick: true, run: harmed(setup{}, outOfMemory)},
	{name: "store-read-only", promise: outageIsOver, quick: true, run: harmed(setup{}, readOnly)},
	{name: "store-no-replicas", promise: outageIsOver, run: harmed(setup{}, noReplicas)},
	{name: "lost-answers", promise: onlyOnce, quick: true,
		run: repeated(setup{proxied: true}, 20*time.Millisecond, loseAnswers)},
	{name: "cut-connections", promise: onlyOnce, quick: true,
		run: repeated(setup{proxied: true}, 50*time.Millisecond, cutConnections)},
	{name: "lost-scripts", promise: onlyOnce, quick: true, run: repeated(setup{}, 30*time.Millisecond, flushScripts)},
	{name: "slots-move", promise: slotsMayMove, quick: true, run: slotsMove},
	{name: "flushed", promise: emptiedIsSaid, quick: true, run: flushed},
	{name: "older-version", promise: tooOld, quick: true, run: older},
	{name: "mistakes", promise: mistakesSaid, quick: true, run: mistakes},
	{name: "late-store", promise: mayBeAway, quick: true, run: lateStart("local")},
	{name: "late-store-deny", promise: mayBeAway, run: lateStart("deny")},
	{name: "late-store-allow", promise: mayBeAway, run: lateStart("allow")},
	{name: "clocks", promise: clocksDiffer, quick: true, skewed: true, run: clocks},
	{name: "partition-local", promise: cutOff, quick: true, run: partition("local")},
	{name: "partition-deny", promise: cutOff, quick: true, run: partition("deny")},
	{name: "partition-allow", promise: cutOff, quick: true, run: partition("allow")},
	{name: "reload", promise: reloadKeeps, quick: true, run: reloads},
	{name: "move-store", promise: storeMoves, quick: true, run: moveStore},
	{name: "backup", promise: backupHolds, quick: true, run: backup(standalone)},
	{name: "backup-cluster", promise: backupHolds, run: backup(cluster)},
	{name: "migrate", promise: allIsMoved, quick: true, run: migrate},
	{name: "leases", promise: leasesBound, quick: true, run: leases},
	{name: "many", promise: manyAccounts, quick: true, run: many},
}
