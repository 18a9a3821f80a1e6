#!lua
-- SPDX-FileCopyrightText: 2026 The caddy-moderation authors
-- SPDX-License-Identifier: Apache-2.0

-- Applies a change of counts once, or undoes it once: outcomes of calls, what was admitted while the server could not be
-- reached, and charges of which nobody knows whether they came.
--
-- KEYS  as of take
-- ARGV  1 id of the change
--       2 what the account's record has for its incarnation, or nothing: the account is not looked for
--       3 mode
--           do    changes the counts, unless this id did or was undone
--           undo  takes back what this id charged. If it has not come yet, it will change nothing
--           back  takes back the outcome that this id recorded, and gives the requests of its call back. If the outcome
--                 has not come yet, it will change nothing
--       4 number of calls to be forgotten, and then they
--       then for each item
--           kind: c of calls, l of a lease: requests to charge are noted for the key only, because the windows were charged
--           with the lease, and those to give back are given back to the windows only
--           minute, day, period, as they are named in counts. The minute may be nothing
--           id of the key or nothing, number of the day
--           requests to charge, without asking for limits
--           requests to give back
--           number of categories, and for each its name and how often it was flagged
--
-- For back, the requests to charge are those that are given back if the outcome did not come, and the requests to give
-- back those that the outcome gave back. For undo there is nothing to give back and no category.
--
-- Answers as take does, without counts. Codes: 0 done, now or before, n there is no such account, x undone before.

local now = redis.call('TIME')
local time = ' 0 0 0 ' .. now[1] .. ' ' .. now[2] .. ' 0'

local tag = ARGV[2]
if tag ~= '' and redis.call('GETRANGE', KEYS[1], 13, 12 + #tag) ~= tag then return 'n' .. time end

local counts, details, calls = KEYS[4], KEYS[5], KEYS[6]
local id, mode = ARGV[1], ARGV[3]

local state = redis.call('HGET', calls, id)
local undone = state and string.sub(state, 1, 1) == 'x'
if undone then return (mode == 'do' and 'x' or '0') .. time end
-- A charge may have leased more than its call needs. Nobody knows of the rest.
local leased = state and string.match(state, '+(%d+)')
if mode == 'do' and state and not leased then return '0' .. time end
redis.call('HSET', calls, id, mode == 'do' and now[1] or 'x' .. now[1])

local next = 4
local forgotten = tonumber(ARGV[next])
if forgotten > 0 then redis.call('HDEL', calls, unpack(ARGV, next + 1, next + forgotten)) end
next = next + forgotten + 1

-- include windows

-- charge adds requests to a window, which is made if it does not exist.
local function charge(window, keep, n)
  if redis.call('HEXISTS', counts, window) == 0 then begin(window, keep) end
  redis.call('HINCRBY', counts, window, n)
end

-- giveBack takes requests from a window that exists. It never goes below nothing.
local function giveBack(window, n)
  if redis.call('HEXISTS', counts, window) == 0 then return end
  if redis.call('HINCRBY', counts, window, '-' .. n) < 0 then redis.call('HSET', counts, window, 0) end
end

-- lower takes from a detail, and removes it when nothing is left.
local function lower(detail, n)
  if redis.call('HINCRBY', details, detail, '-' .. n) <= 0 then redis.call('HDEL', details, detail) end
end

local function refund(day, period, key, n)
  giveBack(day, n)
  giveBack(period, n)
  if key ~= '' then lower('k' .. string.sub(period, 2) .. '/' .. key, n) end
end

-- note counts requests for a key.
local function note(period, key, n, number)
  if key == '' then return end
  redis.call('HINCRBY', details, 'k' .. string.sub(period, 2) .. '/' .. key, n)
  if redis.call('HEXISTS', KEYS[2], key) == 1 then redis.call('HSET', KEYS[3], key, number) end
end

local function windows(minute, day, period, n)
  giveBack(minute, n)
  giveBack(day, n)
  giveBack(period, n)
end

if leased then
  windows(ARGV[next + 1], ARGV[next + 2], ARGV[next + 3], leased)
  if mode == 'do' then return '0' .. time end
end

while next <= #ARGV do
  local kind, minute, day, period, key, number = unpack(ARGV, next, next + 5)
  local n, back, categories = ARGV[next + 6], ARGV[next + 7], tonumber(ARGV[next + 8])
  next = next + 9
  if kind == 'l' then
    if redis.call('HEXISTS', counts, period) == 1 then
      if n ~= '0' then note(period, key, n, number) end
      if back ~= '0' then windows(minute, day, period, back) end
    end
  elseif mode == 'do' then
    if n ~= '0' then
      if minute ~= '' then
        if redis.call('HEXISTS', counts, minute) == 0 then purge() end
        charge(minute, KEPT_MINUTES, n)
      end
      charge(day, KEPT_DAYS, n)
      charge(period, KEPT_PERIODS, n)
      note(period, key, n, number)
    end
    if back ~= '0' then refund(day, period, key, back) end
  elseif mode == 'undo' then
    if state then
      giveBack(minute, n)
      refund(day, period, key, n)
    end
  elseif n ~= '0' and not (state and back ~= '0') then
    refund(day, period, key, n)
  end
  if categories > 0 and redis.call('HEXISTS', counts, period) == 1 then
    for i = next, next + 2 * categories - 1, 2 do
      local detail = 'f' .. string.sub(period, 2) .. '/' .. ARGV[i]
      if mode == 'do' then
        redis.call('HINCRBY', details, detail, ARGV[i + 1])
      elseif state then
        lower(detail, ARGV[i + 1])
      end
    end
  end
  next = next + 2 * categories
end
return '0' .. time
