#!lua
-- SPDX-FileCopyrightText: 2026 The caddy-moderation authors
-- SPDX-License-Identifier: Apache-2.0

-- Charges a call to its minute, day and period if the limits leave room, and to nothing otherwise.
--
-- KEYS  1 account  2 keys  3 used  4 counts  5 details  6 calls
-- ARGV  1 id of the call
--       2 what the account's record has for its incarnation, or nothing: the account is not looked for
--       3 number of the minute that it must be by the server's clock, or nothing: the caller's clock is taken as it is
--       4 minute  5 day  6 period, as they are named in counts
--       7 requests  8 limit of the minute  9 limit of the period, 0 for none
--       10 id of the key or nothing  11 its name in details  12 number of the day
--       13 requests that are charged at most, to be admitted later without asking: a lease. 0 for none
--       14 the part of what the limits leave that a lease takes at most: 2 for a half
--       15... calls whose answers have arrived, to be forgotten
--
-- Answers "<code> <minute> <day> <period> <seconds> <microseconds> <leased>": the counts, which are exact to 63 bits, the
-- server's time, and how many requests beyond those of the call were charged. Codes: 0 charged, m and p refused by the minute or the period, n there is no such account, o it is
-- another minute, x the call was cancelled before it came, d a count is damaged.

local now = redis.call('TIME')
local time = ' ' .. now[1] .. ' ' .. now[2] .. ' '

local tag = ARGV[2]
if tag ~= '' and redis.call('GETRANGE', KEYS[1], 13, 12 + #tag) ~= tag then return 'n 0 0 0' .. time .. '0' end
-- The clocks of a cluster's masters, and the estimates of them, differ a little: two seconds around a minute belong to it.
if ARGV[3] ~= '' then
  local seconds = now[1] - ARGV[3] * 60
  -- A call that was charged in its minute and asks again, because its answer was lost, is answered.
  if (seconds < -2 or seconds >= 62) and redis.call('HEXISTS', KEYS[6], ARGV[1]) == 0 then
    return 'o 0 0 0' .. time .. '0'
  end
end

local counts, details, calls = KEYS[4], KEYS[5], KEYS[6]
local id, minute, day, period, n = ARGV[1], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

if ARGV[15] then redis.call('HDEL', calls, unpack(ARGV, 15)) end

local known = redis.call('HMGET', counts, minute, day, period)
local m, d, p = known[1] or '0', known[2] or '0', known[3] or '0'

local extra = 0
local function answer(code) return code .. ' ' .. m .. ' ' .. d .. ' ' .. p .. time .. extra end

-- before answers for a call that came before, or that was cancelled before it came.
local function before(state)
  if string.sub(state, 1, 1) == 'x' then return answer('x') end
  extra = string.match(state, '+(%d+)') or 0
  return answer('0')
end

-- exceeds compares numbers of any size.
local function exceeds(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end

-- Numbers of Lua are exact up to 53 bits. Longer ones are added by the server and compared as texts.
local M, D, P
local small = #m <= 13 and #d <= 13 and #p <= 13 and #n <= 13
local refused = false
if small then
  M, D, P = tonumber(m), tonumber(d), tonumber(p)
  if not (M and D and P) then return 'd 0 0 0' .. time .. '0' end
  M, D, P = M + n, D + n, P + n
  local minuteLimit, periodLimit = tonumber(ARGV[8]), tonumber(ARGV[9])
  if periodLimit > 0 and P > periodLimit then
    refused = 'p'
  elseif minuteLimit > 0 and M > minuteLimit then
    refused = 'm'
  elseif ARGV[13] ~= '0' then
    extra = ARGV[13] - n
    if periodLimit > 0 then extra = math.min(extra, math.floor((periodLimit - P) / ARGV[14])) end
    if minuteLimit > 0 then extra = math.min(extra, math.floor((minuteLimit - M) / ARGV[14])) end
    extra = math.max(extra, 0)
  end
else
  -- sum returns the sum of two numbers; a longer one than any limit when it does not fit.
  local function sum(count)
    redis.call('HSET', calls, 'sum', count)
    local fits = redis.pcall('HINCRBY', calls, 'sum', n)
    local result = redis.call('HGET', calls, 'sum')
    redis.call('HDEL', calls, 'sum')
    if type(fits) == 'table' then return '99999999999999999999' end
    return result
  end
  M, D, P = sum(m), sum(d), sum(p)
  if ARGV[9] ~= '0' and exceeds(P, ARGV[9]) then
    refused = 'p'
  elseif ARGV[8] ~= '0' and exceeds(M, ARGV[8]) then
    refused = 'm'
  elseif #M > 19 or #D > 19 or #P > 19 then
    return 'd 0 0 0' .. time .. '0'
  end
end

if refused then
  local state = redis.call('HGET', calls, id)
  return state and before(state) or answer(refused)
end
if redis.call('HSETNX', calls, id, extra > 0 and now[1] .. '+' .. extra or now[1]) == 0 then
  return before(redis.call('HGET', calls, id))
end
if extra > 0 then M, D, P = M + extra, D + extra, P + extra end

if not (known[1] and known[2] and known[3]) then
  -- include windows
  if not known[1] then
    begin(minute, KEPT_MINUTES)
    purge()
  end
  if not known[2] then begin(day, KEPT_DAYS) end
  if not known[3] then begin(period, KEPT_PERIODS) end
end

redis.call('HSET', counts, minute, M, day, D, period, P)
if ARGV[10] ~= '' then
  redis.call('HINCRBY', details, ARGV[11], n)
  if redis.call('HGET', KEYS[3], ARGV[10]) ~= ARGV[12] and redis.call('HEXISTS', KEYS[2], ARGV[10]) == 1 then
    redis.call('HSET', KEYS[3], ARGV[10], ARGV[12])
  end
end
m, d, p = M, D, P
return answer('0')
