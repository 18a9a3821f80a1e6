-- Replaces a record, unless it is too late or the record is not what it was taken for.
--
-- KEYS: the record
-- ARGV: what it was taken for, what it becomes, the last millisecond of the server's clock for that
--       A record that is absent, or deleted (its first byte is 0), is taken for the empty string.
-- Returns what came of it ("done", "other", "late"), the time in milliseconds, and the record that is there.
--
-- A swap that was done before is done: no two writes have the same value.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local is = redis.call('GET', KEYS[1]) or ''
local outcome = 'done'
if is ~= ARGV[2] then
	local taken = is
	if string.byte(is) == 0 then
		taken = ''
	end
	if now > tonumber(ARGV[3]) then
		outcome = 'late'
	elseif taken ~= ARGV[1] then
		outcome = 'other'
	elseif string.byte(ARGV[2]) == 0 then
		redis.call('SET', KEYS[1], ARGV[2], 'PX', 86400000)
	else
		redis.call('SET', KEYS[1], ARGV[2])
	end
end
return {outcome, string.format('%.0f', now), is}
