-- Takes a swap back whose outcome is not known, once it is too late for it to be done.
--
-- KEYS: the record
-- ARGV: as for the swap
-- Returns "done", or "early" if the swap may still be done, and the time in milliseconds.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local outcome = 'early'
if now > tonumber(ARGV[3]) then
	outcome = 'done'
	if redis.call('GET', KEYS[1]) == ARGV[2] then
		if ARGV[1] == '' then
			redis.call('UNLINK', KEYS[1])
		else
			redis.call('SET', KEYS[1], ARGV[1])
		end
	end
end
return {outcome, string.format('%.0f', now)}
