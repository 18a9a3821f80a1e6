-- Adds a record of feedback to its day.
--
-- KEYS: the order of the day, its records
-- ARGV: the beginning of the entry in the order, the record, the last millisecond of the server's clock for this
-- Returns "done", "other" if there is another record of this time and id, or "late", and the time in milliseconds.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local clock = string.format('%.0f', now)
local found = redis.call('ZRANGE', KEYS[1], '[' .. ARGV[1], '[' .. ARGV[1] .. '\255', 'BYLEX', 'LIMIT', 0, 1)
if found[1] then
	local id = string.sub(found[1], #ARGV[1] + 1)
	local entry = redis.call('XRANGE', KEYS[2], id, id)[1]
	if entry and entry[2][2] == ARGV[2] then
		return {'done', clock}
	end
	return {'other', clock}
end
if now > tonumber(ARGV[3]) then
	return {'late', clock}
end
local id = redis.call('XADD', KEYS[2], '*', 'r', ARGV[2])
redis.call('ZADD', KEYS[1], 0, ARGV[1] .. id)
return {'done', clock}
