-- Takes a record of feedback back, once it is too late for it to be added.
--
-- KEYS, ARGV: as for adding
-- Returns "done", or "early" if the record may still be added, and the time in milliseconds.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local outcome = 'early'
if now > tonumber(ARGV[3]) then
	outcome = 'done'
	local found = redis.call('ZRANGE', KEYS[1], '[' .. ARGV[1], '[' .. ARGV[1] .. '\255', 'BYLEX', 'LIMIT', 0, 1)
	if found[1] then
		local id = string.sub(found[1], #ARGV[1] + 1)
		local entry = redis.call('XRANGE', KEYS[2], id, id)[1]
		if entry and entry[2][2] == ARGV[2] then
			redis.call('XDEL', KEYS[2], id)
			redis.call('ZREM', KEYS[1], found[1])
		end
	end
end
return {outcome, string.format('%.0f', now)}
