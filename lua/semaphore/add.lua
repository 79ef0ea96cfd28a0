-- Adds permits outside any hold, or removes permits permanently. Keeps the semaphore's time to live.
--
-- KEYS[1]  semaphore  [string]   the number of available permits, in decimal; absent means 0
-- KEYS[2]  record     [string]   exists if an earlier copy of this operation succeeded
-- ARGV[1]  permits    [integer]  the number, not 0; a negative number removes permits, even more than are available
-- ARGV[2]  memory     [integer]  the lifetime of the record in milliseconds
-- ARGV[3]  publish    [string]   PUBLISH or SPUBLISH
-- ARGV[4]  channel    [channel]  where waiters listen; gets the new number when it has grown and is positive
-- returns  [array]    {1, available}   done
--                     {2, available}   done before (a duplicate of a successful command)
--                     {-4, kind}       the key is of another kind, named by kind
--                     {-8, available}  overflow: the number would leave the range of 32 bits; nothing was changed
-- where    available is the number of available permits after the command; it may be negative
-- example  KEYS seats leasehold:1:op:{seats}:6f0c…:7  ARGV 3 600000 PUBLISH redisson_sc:{seats}  returns {1, 13}

local semaphore_key, record_key = KEYS[1], KEYS[2]
local permits, memory, publish, channel = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]

local value = short_text(semaphore_key)
if type(value) == 'table' then
  return refuse_kind(value, semaphore_key)
end
if value and not whole(value) then
  return {-4, 'string that is no number'}
end
value = whole(value or '0')
if redis.call('EXISTS', record_key) == 1 then
  return {2, value}
end
local sum = value + permits
if sum > 2147483647 or sum < -2147483648 then
  return {-8, value}
end

if permits > 0 and sum > 0 then
  redis.call(publish, channel, sum)
end
local changed = change_once(semaphore_key, record_key, permits, memory)
if type(changed) == 'table' then
  return changed
end
return {1, sum}
