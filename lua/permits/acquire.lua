-- Acquires permits with ids and a lease. The ids belong to one hold, so a duplicate finds the ids and acquires nothing.
--
-- KEYS[1]  permits    [string]   the number of available permits, in decimal
-- KEYS[2]  deadlines  [zset]     id of a held permit -> its deadline, in milliseconds since the epoch
-- ARGV[1]  ids        [string]   the ids of the hold, sixteen bytes each
-- ARGV[2]  count      [integer]  the hold count after success, at least 1; only 1 may take permits
-- ARGV[3]  lease      [integer]  milliseconds, at least 1; an existing lease is never shortened
-- ARGV[4]  not_after  [integer]  server time in milliseconds after which no permit is granted; 0 or less sets no limit
-- ARGV[5]  publish    [string]   PUBLISH or SPUBLISH
-- ARGV[6]  channel    [channel]  where waiters listen; gets the number of available permits when the script returns expired permits
-- returns  [array]    {1, left, time, in_all}  granted: the hold has the permits
--                     {2, left, time}  held: the hold had the permits before (a duplicate of a successful command)
--                     {0, left, time}  busy: too few permits are available; left is the remaining lease of the permit that expires first,
--                                      -1 if none does, -2 for a missing semaphore
--                     {-2, 0, time}    lost: a count above 1, and some permits are missing
--                     {-3, 0, time}    too late: the command arrived after not_after
--                     {-4, kind}       a key is of another kind, named by kind
--                     {-6, capacity}   excess: the request exceeds the capacity
-- where    left is the remaining lease in milliseconds, time the server's time in milliseconds, in_all the number of permits held by all clients
-- example  KEYS seats {seats}:timeout  ARGV 0123456789abcdef 1 30000 -1 PUBLISH redisson_sc:{seats}  returns {1, 30000, 1800000000000, 1}

local permits_key, deadlines_key = KEYS[1], KEYS[2]
local ids, count, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local not_after, publish, channel = tonumber(ARGV[4]), ARGV[5], ARGV[6]

local value = short_text(permits_key)
if type(value) == 'table' then
  return refuse_kind(value, permits_key)
end
if value and not whole(value) then
  return {-4, 'string that is no number'}
end
local held_in_all = redis.pcall('ZCARD', deadlines_key)
if type(held_in_all) == 'table' then
  return refuse_kind(held_in_all, deadlines_key)
end
if held_in_all == 0 and value and whole(value) >= 1 and whole(value) * 16 < #ids then
  -- All permits are available, so the number of available permits is the capacity.
  return {-6, whole(value)}
end

local time = server_time()
local held, all = find_held(deadlines_key, ids, time)
if #held == #all then
  return {2, extend_deadlines(deadlines_key, all, time + lease) - time, time}
elseif count > 1 then
  return {-2, 0, time}
end

local reaped = reap_permits(permits_key, deadlines_key, time)
if #held > 0 then
  -- The hold lost some of its permits. Return the remaining permits before a new grant.
  give_back(permits_key, deadlines_key, held)
end
local available = whole(redis.call('GET', permits_key) or '0')
local too_late = not_after > 0 and time > not_after

if available < #all or too_late then
  if reaped + #held > 0 and available > 0 then
    redis.call(publish, channel, available)
  end
  local capacity = available + redis.call('ZCARD', deadlines_key)
  if capacity >= 1 and capacity < #all then
    return {-6, capacity}
  elseif available >= #all then
    return {-3, 0, time}
  end
  local first = redis.call('ZRANGE', deadlines_key, 0, 0, 'WITHSCORES')
  if first[2] and tonumber(first[2]) < 922337203685477 then
    return {0, math.max(1, tonumber(first[2]) - time), time}
  end
  return {0, value and -1 or -2, time}
end

if reaped + #held > 0 and available > #all then
  redis.call(publish, channel, available - #all)
end
-- Read before writing, and write deadlines before the count. If counting fails, remove the deadlines: a permit that is
-- neither available nor held would be lost.
local lifetime = redis.call('PTTL', permits_key)
local deadline = math.min(time + lease, 922337203685477)
for i = 1, #all do
  redis.call('ZADD', deadlines_key, deadline, all[i])
end
local counted = redis.pcall('DECRBY', permits_key, #all)
if type(counted) == 'table' then
  for i = 1, #all do
    if type(redis.pcall('ZREM', deadlines_key, all[i])) == 'table' then
      return redis.error_reply('ERR the permits have deadlines, and DECRBY and ZREM are refused')
    end
  end
  return counted
end
if lifetime > 0 then
  local set = redis.pcall('PEXPIRE', deadlines_key, lifetime)
  if type(set) == 'table' then
    return redis.error_reply('ERR the permits were granted, and PEXPIRE is refused')
  end
end
return {1, deadline - time, time, redis.call('ZCARD', deadlines_key)}
