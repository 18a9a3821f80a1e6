-- Takes back the deletion of an account, once it is too late for it to be done. If the account was added again
-- meanwhile, what was deleted stays so.
--
-- KEYS, ARGV: as for the deletion
-- Returns "done", or "early" if the deletion may still be done, and the time in milliseconds.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local outcome = 'early'
if now > tonumber(ARGV[#ARGV]) then
	outcome = 'done'
	local n = #KEYS / 2
	local again = redis.call('EXISTS', KEYS[1]) == 1
	for i = 1, n do
		if redis.call('EXISTS', KEYS[n + i]) == 1 then
			if again then
				redis.call('UNLINK', KEYS[n + i])
			else
				redis.call('RENAME', KEYS[n + i], KEYS[i])
				redis.call('PERSIST', KEYS[i])
			end
		end
	end
end
return {outcome, string.format('%.0f', now)}
