-- Deletes records of feedback of a day. They stay aside, for a day at most, until the deletion is complete.
--
-- KEYS: the order of the day, its records, what is aside
-- ARGV: the beginnings of the entries in the order, the last millisecond of the server's clock for this
-- Returns "done" or "late", the time in milliseconds, and how many records were deleted.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local clock = string.format('%.0f', now)
local count = redis.call('HLEN', KEYS[3])
if count > 0 then
	return {'done', clock, count}
end
if now > tonumber(ARGV[#ARGV]) then
	return {'late', clock}
end
for i = 1, #ARGV - 1 do
	local found = redis.call('ZRANGE', KEYS[1], '[' .. ARGV[i], '[' .. ARGV[i] .. '\255', 'BYLEX', 'LIMIT', 0, 1)
	if found[1] then
		local id = string.sub(found[1], #ARGV[i] + 1)
		local entry = redis.call('XRANGE', KEYS[2], id, id)[1]
		redis.call('HSET', KEYS[3], ARGV[i], entry and entry[2][2] or '')
		redis.call('XDEL', KEYS[2], id)
		redis.call('ZREM', KEYS[1], found[1])
		count = count + 1
	end
end
if count > 0 then
	redis.call('PEXPIRE', KEYS[3], 86400000)
end
return {'done', clock, count}
