-- Finds out which commands the user may not run that scripts run. None of them leaves anything.
--
-- KEYS: a record that does not exist
-- Returns the commands that the user may not run.
local k = KEYS[1]
local refused = {}
for _, command in ipairs({
	{'exists', k}, {'unlink', k}, {'rename', k, k}, {'persist', k}, {'pexpire', k, '1000'}, {'time'},
	{'get', k}, {'getrange', k, '0', '0'}, {'set', k, '', 'PX', '1000', 'XX'},
	{'hget', k, 'f'}, {'hmget', k, 'f'}, {'hscan', k, '0'}, {'hgetall', k}, {'hkeys', k}, {'hlen', k},
	{'hexists', k, 'f'}, {'hset', k, 'f', '1'}, {'hsetnx', k, 'f', '1'}, {'hincrby', k, 'f', '1'}, {'hdel', k, 'f'},
	{'zadd', k, 'XX', '0', 'm'}, {'zrem', k, 'm'}, {'zrange', k, '0', '0'}, {'zcount', k, '0', '0'},
	{'zremrangebyscore', k, '0', '0'},
	{'xadd', k, 'NOMKSTREAM', '*', 'f', ''}, {'xdel', k, '0-1'}, {'xrange', k, '-', '+', 'COUNT', '1'},
	{'xack', k, 'g', '0-1'}, {'xreadgroup', 'GROUP', 'g', 'c', 'STREAMS', k, '0'}, {'xgroup', 'create', k, 'g', '0'},
	{'xgroup', 'destroy', k, 'g'},
}) do
	local answer = redis.pcall(unpack(command))
	local err = type(answer) == 'table' and answer.err or ''
	-- Redis 7.0 says the first, later versions and Valkey the second.
	if string.find(err, 'The user executing the script', 1, true) or string.find(err, 'ACL failure', 1, true) then
		refused[#refused + 1] = command[1]
	end
end
redis.pcall('unlink', k)
return refused
