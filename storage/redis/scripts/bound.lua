-- Counts a record of feedback against the bound of its account's day.
--
-- KEYS: the bounds of the account, the note that this call has counted
-- ARGV: the day, the bytes, the bounds in records and bytes (0 for none), how many days are kept, the last millisecond
--       of the server's clock for this
-- Returns "done", "full" or "late", and the time in milliseconds.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local clock = string.format('%.0f', now)
if redis.call('EXISTS', KEYS[2]) == 1 then
	return {'done', clock}
end
if now > tonumber(ARGV[6]) then
	return {'late', clock}
end
local day = tonumber(ARGV[1])
local is = redis.call('HGET', KEYS[1], 'r' .. ARGV[1])
local records = tonumber(is or '0') + 1
local bytes = tonumber(redis.call('HGET', KEYS[1], 'b' .. ARGV[1]) or '0') + tonumber(ARGV[2])
local most, mostBytes = tonumber(ARGV[3]), tonumber(ARGV[4])
if (most > 0 and records > most) or (mostBytes > 0 and bytes > mostBytes) then
	return {'full', clock}
end
if not is then
	-- The first count of a day evicts others: those before it but the newest, and those after it but the newest.
	local before, after = {}, {}
	for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
		if string.sub(field, 1, 1) == 'r' then
			local other = tonumber(string.sub(field, 2))
			if other < day then
				before[#before + 1] = other
			else
				after[#after + 1] = other
			end
		end
	end
	for _, side in ipairs({before, after}) do
		table.sort(side)
		for i = 1, #side - tonumber(ARGV[5]) do
			local old = string.format('%.0f', side[i])
			redis.call('HDEL', KEYS[1], 'r' .. old, 'b' .. old)
		end
	end
end
redis.call('HINCRBY', KEYS[1], 'r' .. ARGV[1], 1)
redis.call('HINCRBY', KEYS[1], 'b' .. ARGV[1], ARGV[2])
redis.call('SET', KEYS[2], '1', 'PX', 3600000)
return {'done', clock}
