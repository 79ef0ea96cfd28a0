-- Sets the number of permits if it is not set. A counter of 0 counts as set: all of its permits may be held.
--
-- KEYS[1]  semaphore  [string]   the number of available permits, in decimal
-- KEYS[2]  record     [string]   exists if an earlier copy of this operation succeeded
-- ARGV[1]  permits    [integer]  the number, from 0 to 2147483647
-- ARGV[2]  lifetime   [integer]  the lifetime of the semaphore in milliseconds; 0 for no expiry
-- ARGV[3]  memory     [integer]  the lifetime of the record in milliseconds
-- ARGV[4]  publish    [string]   PUBLISH or SPUBLISH
-- ARGV[5]  channel    [channel]  where waiters listen; gets the number when it is positive
-- returns  [array]    {1, available}  set
--                     {2, available}  set before (a duplicate of a successful command)
--                     {0, available}  refused: the number is already set
--                     {-4, kind}      the key is of another kind, named by kind
--                     {-8, available}  overflow: more than 2147483647 permits; nothing was changed
-- where    available is the number of available permits after the command
-- example  KEYS seats leasehold:1:op:{seats}:6f0c…:7  ARGV 10 0 600000 PUBLISH redisson_sc:{seats}  returns {1, 10}

local semaphore_key, record_key = KEYS[1], KEYS[2]
local permits, lifetime = tonumber(ARGV[1]), tonumber(ARGV[2])
local memory, publish, channel = tonumber(ARGV[3]), ARGV[4], ARGV[5]

local value = short_text(semaphore_key)
if type(value) == 'table' then
  return refuse_kind(value, semaphore_key)
end
if value and not whole(value) then
  return {-4, 'string that is no number'}
end
if redis.call('EXISTS', record_key) == 1 then
  return {2, whole(value or '0')}
elseif value then
  return {0, whole(value)}
elseif permits > 2147483647 then
  return {-8, 0}
end

if permits > 0 then
  redis.call(publish, channel, permits)
end
if lifetime > 0 then
  redis.call('SET', semaphore_key, permits, 'PX', lifetime)
else
  redis.call('SET', semaphore_key, permits)
end
redis.call('SET', record_key, permits, 'PX', memory)
return {1, permits}
