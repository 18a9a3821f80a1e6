#!lua
-- SPDX-FileCopyrightText: 2026 The caddy-moderation authors
-- SPDX-License-Identifier: Apache-2.0

-- Notes that a node lives, forgets those that have not said so for a minute, and answers how many live, and the time.
--
-- KEYS  1 nodes
-- ARGV  1 id of the node  2 milliseconds after which a node is not counted
--
-- Answers "<nodes> <seconds> <microseconds>".

local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZADD', KEYS[1], ms, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms - 60000)
local live = redis.call('ZCOUNT', KEYS[1], ms - ARGV[2], '+inf')
return live .. ' ' .. now[1] .. ' ' .. now[2]
