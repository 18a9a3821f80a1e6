-- Adds a collection to the set of all, so that a backup finds it.
--
-- KEYS: the set
-- ARGV: the collection
-- Returns "done" and the time in milliseconds.
local time = redis.call('TIME')
redis.call('ZADD', KEYS[1], 0, ARGV[1])
return {'done', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))}
