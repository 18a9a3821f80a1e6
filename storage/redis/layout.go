// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

// schema is the version of the layout below. The record of the store's identity holds it.
//
// All names begin with the prefix (here "mod"). What is in braces decides the slot in a cluster: all records of an
// account are in one slot, so that one script can change them.
//
//	mod:store                     string  identity of the store: schema, random id, "seeded"; sealed
//	mod:store:{n}                 string  random id of the store again, n from 0 to 63, spread over the cluster's
//	                                      masters: shows that one of them was emptied
//	mod:hold                      string  why nothing may be changed, while everything is moved; see state.go
//	mod:nodes                     zset    node id, scored with the server time in ms of its last sign of life
//	mod:breaker:{n}               -       never exists: a write that changes nothing tries whether a master writes
//	mod:ids:{n}                   zset    ids of accounts and of owners of keys, n = FNV-1a(id) mod 64, all scores 0
//	mod:key:<hash>                string  key, JSON, sealed; hash in hex
//	mod:keyid:<key id>            string  "<hash in hex> <ms>": claims the id; the key itself is added until then
//	mod:{a:<account>}:account     string  account, JSON, sealed
//	mod:{a:<account>}:keys        hash    key id -> hash in hex
//	mod:{a:<account>}:used        hash    key id -> UTC day of its last use, as a number of days since 1970
//	mod:{a:<account>}:counts      hash    "m<minute>", "d<day>", "p<start>" -> requests; see quota.KeptMinutes.
//	                                      Minute and day are numbers since 1970, start is "<unix seconds>", with
//	                                      ".<ns>" if it is not a whole second
//	mod:{a:<account>}:details     hash    "f<start>/<category>" -> flagged, "k<start>/<key id>" -> requests of a key;
//	                                      they go with the period
//	mod:{a:<account>}:bounds      hash    "r<day>" -> feedback records, "b<day>" -> their bytes
//	mod:{a:<account>}:calls       hash    id of a call -> second of the server's clock; "+<n>" after it: n were leased,
//	                                      "x" before it: the call was undone. See calls.go
//	mod:{a:<account>}:bound:<n>   string  a record was counted against a bound; goes when the record is kept
//	mod:{a:<account>}:deleted:<n>:<table>
//	                              what was deleted with the account; goes when the deletion is complete
//	mod:feedback                  zset    the days that have feedback, scored with their number
//	mod:{f:<day>}:order           zset    "<time><id>" 0 "<stream id>", all scores 0; time as 24 sortable hex digits
//	mod:{f:<day>}:records         stream  r -> record, JSON, sealed, in the order of arrival; a group is a consumer
//	mod:{f:<day>}:deleted:<n>     hash    "<time><id>" 0 -> record: what is being deleted
//	mod:collections               zset    the collections of documents, all scores 0
//	mod:{d:<collection>}:keys     zset    keys of the documents, all scores 0
//	mod:{d:<collection>}:doc:<key>
//	                              string  document, sealed; its revision is the random part of the sealed value
//	mod:{d:<collection>}:made:<n> string  a change of documents was made; for ten minutes
//	mod:probe:...                 names of which nothing is kept, to find out whether the server does its work
//
// What goes when something is complete has a random n, and expires in case it never is. See record.go for sealed values
// and for those of deleted keys and claims, which stay for a day. Counts are plain numbers, which the server's scripts
// add to.
const schema = 1
