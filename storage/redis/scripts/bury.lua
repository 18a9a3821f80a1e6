-- Deletes an account with everything in its slot, by giving it other names, under which it stays for a day at most. So
-- it can be taken back.
--
-- KEYS: the account, its index of keys, the other tables of the account, then the other names of all of these
-- ARGV: what the account was taken for, the ids in the index, the last millisecond of the server's clock for this
-- Returns "done", "other" if the account or the index is not what it was taken for, or "late", and the time in ms.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local clock = string.format('%.0f', now)
local n = #KEYS / 2
if redis.call('EXISTS', KEYS[n + 1]) == 1 then
	return {'done', clock}
end
if now > tonumber(ARGV[#ARGV]) then
	return {'late', clock}
end
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('HLEN', KEYS[2]) ~= #ARGV - 2 then
	return {'other', clock}
end
for i = 2, #ARGV - 1 do
	if redis.call('HEXISTS', KEYS[2], ARGV[i]) == 0 then
		return {'other', clock}
	end
end
for i = 1, n do
	if redis.call('EXISTS', KEYS[i]) == 1 then
		redis.call('RENAME', KEYS[i], KEYS[n + i])
		redis.call('PEXPIRE', KEYS[n + i], 86400000)
	end
end
return {'done', clock}
