-- Gives a consumer records of feedback of a day: those that it was given and has not acknowledged, or else the next
-- ones.
--
-- KEYS: the records of the day
-- ARGV: the consumer, how many records at most
-- Returns "done", the time in milliseconds, and an id and a record in turn.
local time = redis.call('TIME')
local answer = {'done', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))}
if redis.call('EXISTS', KEYS[1]) == 0 then
	return answer
end
redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0')
for _, from in ipairs({'0', '>'}) do
	local after = from
	while #answer == 2 do
		local read = redis.call('XREADGROUP', 'GROUP', ARGV[1], 'c', 'COUNT', ARGV[2], 'STREAMS', KEYS[1], after)
		if not read or #read[1][2] == 0 then
			break
		end
		for _, entry in ipairs(read[1][2]) do
			if entry[2] then
				answer[#answer + 1] = entry[1]
				answer[#answer + 1] = entry[2][2]
			else
				-- It was deleted before it was acknowledged.
				redis.call('XACK', KEYS[1], ARGV[1], entry[1])
			end
			if from == '0' then
				after = entry[1]
			end
		end
	end
end
return answer
