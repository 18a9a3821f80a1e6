-- Gives back what a record of feedback was counted against a bound, once it is too late for it to be counted.
--
-- KEYS, ARGV: as for counting
-- Returns "done", or "early" if the record may still be counted, and the time in milliseconds.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local outcome = 'early'
if now > tonumber(ARGV[6]) then
	outcome = 'done'
	local counted = redis.call('EXISTS', KEYS[2]) == 1
	redis.call('UNLINK', KEYS[2])
	if counted and redis.call('HEXISTS', KEYS[1], 'r' .. ARGV[1]) == 1 then
		if redis.call('HINCRBY', KEYS[1], 'r' .. ARGV[1], -1) <= 0 then
			redis.call('HDEL', KEYS[1], 'r' .. ARGV[1], 'b' .. ARGV[1])
		else
			redis.call('HINCRBY', KEYS[1], 'b' .. ARGV[1], '-' .. ARGV[2])
		end
	end
end
return {outcome, string.format('%.0f', now)}
