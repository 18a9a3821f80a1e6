-- Takes a deletion of records of feedback back, once it is too late for it to be done.
--
-- KEYS, ARGV: as for the deletion
-- Returns "done", or "early" if the records may still be deleted, and the time in milliseconds.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local outcome = 'early'
if now > tonumber(ARGV[#ARGV]) then
	outcome = 'done'
	local aside = redis.call('HGETALL', KEYS[3])
	for i = 1, #aside, 2 do
		local id = redis.call('XADD', KEYS[2], '*', 'r', aside[i + 1])
		redis.call('ZADD', KEYS[1], 0, aside[i] .. id)
	end
	redis.call('UNLINK', KEYS[3])
end
return {outcome, string.format('%.0f', now)}
