-- SPDX-FileCopyrightText: 2026 The caddy-moderation authors
-- SPDX-License-Identifier: Apache-2.0

-- What the scripts that make windows share. Go puts it where they say "include windows". They have set: counts, details,
-- calls (names), now (the server's time).

-- drop deletes fields of a hash, a few at a time: a call of the server takes only so many arguments.
local function drop(name, fields)
  for i = 1, #fields, 1000 do
    redis.call('HDEL', name, unpack(fields, i, math.min(i + 999, #fields)))
  end
end

-- begin makes room for a window that does not exist yet: of those before it and of those after it, the newest are kept.
-- With a period go its details.
local function begin(window, keep)
  local kind, at = string.sub(window, 1, 1), tonumber(string.sub(window, 2))
  local before, after = {}, {}
  for _, other in ipairs(redis.call('HKEYS', counts)) do
    if string.sub(other, 1, 1) == kind and other ~= window then
      local side = tonumber(string.sub(other, 2)) < at and before or after
      side[#side + 1] = other
    end
  end
  local evicted, gone = {}, {}
  for _, side in ipairs({before, after}) do
    table.sort(side, function(a, b) return tonumber(string.sub(a, 2)) < tonumber(string.sub(b, 2)) end)
    for i = 1, #side - keep do
      evicted[#evicted + 1] = side[i]
      gone[string.sub(side[i], 2)] = true
    end
  end
  if #evicted == 0 then return end
  drop(counts, evicted)
  if kind ~= 'p' then return end
  local old = {}
  for _, field in ipairs(redis.call('HKEYS', details)) do
    if gone[string.match(field, '^.([^/]*)/')] then old[#old + 1] = field end
  end
  drop(details, old)
end

-- purge forgets the calls that nobody repeats any more: a day is longer than a node is cut off. There are few of them:
-- calls whose answers have arrived are forgotten soon.
local function purge()
  local all, old = redis.call('HGETALL', calls), {}
  for i = 1, #all, 2 do
    if now[1] - string.match(all[i + 1], '%d+') > 86400 then old[#old + 1] = all[i] end
  end
  drop(calls, old)
end
