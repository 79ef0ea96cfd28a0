-- Sets the capacity, even while permits are held. Available plus held permits equal the capacity. Below the number of
-- held permits, the number of available permits is negative until enough are released.
--
-- KEYS[1]  permits    [string]   the number of available permits, in decimal
-- KEYS[2]  deadlines  [zset]     id of a held permit -> its deadline, in milliseconds since the epoch
-- KEYS[3]  record     [string]   exists if an earlier copy of this operation succeeded
-- ARGV[1]  capacity   [integer]  the total number of permits, from 0 to 2147483647
-- ARGV[2]  memory     [integer]  the lifetime of the record in milliseconds
-- ARGV[3]  publish    [string]   PUBLISH or SPUBLISH
-- ARGV[4]  channel    [channel]  where waiters listen; gets the number of available permits when it has grown and is positive
-- returns  [array]    {1, available}   done
--                     {2, available}   done before (a duplicate of a successful command)
--                     {-4, kind}       a key is of another kind, named by kind
--                     {-8, available}  overflow: more than 2147483647 permits; nothing was changed
-- where    available is the number of available permits after the command; it may be negative
-- example  KEYS seats {seats}:timeout leasehold:1:op:{seats}:6f0c…:7  ARGV 4 600000 PUBLISH redisson_sc:{seats}  returns {1, 3}

local permits_key, deadlines_key, record_key = KEYS[1], KEYS[2], KEYS[3]
local capacity, memory, publish, channel = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]

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
value = whole(value or '0')
if redis.call('EXISTS', record_key) == 1 then
  return {2, value}
elseif capacity > 2147483647 then
  return {-8, value}
end

-- Expired permits do not count as held.
reap_permits(permits_key, deadlines_key, server_time())
value = whole(redis.call('GET', permits_key) or '0')
local available = capacity - redis.call('ZCARD', deadlines_key)
if available > 0 and available > value then
  redis.call(publish, channel, available)
end
local changed = change_once(permits_key, record_key, available - value, memory)
if type(changed) == 'table' then
  return changed
end
return {1, available}
