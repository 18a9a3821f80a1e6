-- Changes documents of a collection, all of them or none.
--
-- KEYS: the index of the collection, the note that this call has changed them, the documents
-- ARGV: for each document its key in the index, its condition and its new value; then the last millisecond of the
--       server's clock for this
--       A condition is "" for none, "a" for an absent document, or "r" and the 8 bytes of its revision. An empty value
--       deletes.
-- Returns "done", "other" if a condition does not hold, or "late", and the time in milliseconds.
--
-- A call that is repeated finds its note, which is kept longer than calls last.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local clock = string.format('%.0f', now)
if redis.call('EXISTS', KEYS[2]) == 1 then
	return {'done', clock}
end
if now > tonumber(ARGV[#ARGV]) then
	return {'late', clock}
end
for i = 3, #KEYS do
	local condition = ARGV[3 * (i - 3) + 2]
	if condition ~= '' then
		local is = redis.call('GETRANGE', KEYS[i], 5, 12)
		if condition == 'a' and is ~= '' or condition ~= 'a' and is ~= string.sub(condition, 2) then
			return {'other', clock}
		end
	end
end
for i = 3, #KEYS do
	local key, value = ARGV[3 * (i - 3) + 1], ARGV[3 * (i - 3) + 3]
	if value == '' then
		redis.call('UNLINK', KEYS[i])
		redis.call('ZREM', KEYS[1], key)
	else
		redis.call('SET', KEYS[i], value)
		redis.call('ZADD', KEYS[1], 0, key)
	end
end
redis.call('SET', KEYS[2], '', 'PX', 600000)
return {'done', clock}
