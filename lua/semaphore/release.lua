-- Gives the permits of a hold back, once, and tells the waiters. Whatever it finds, a late copy of the acquire is refused afterwards.
--
-- KEYS[1]  semaphore  [string]   the number of available permits, in decimal
-- KEYS[2]  record     [string]   what the hold has changed in all; 0 when its permits were given back
-- ARGV[1]  count      [integer]  the hold count that shall remain; 0 gives the permits back, more leaves them where they are
-- ARGV[2]  permits    [integer]  how many the hold has, at least 1
-- ARGV[3]  granted    [integer]  1 where the hold was granted for certain: without a record its permits are given back all the same,
--                                because the record does not outlive a long hold; 0 where only a record shows a grant
-- ARGV[4]  memory     [integer]  milliseconds for which the record is kept
-- ARGV[5]  publish    [string]   PUBLISH or SPUBLISH
-- ARGV[6]  channel    [channel]  where waiters listen; gets the new number of available permits when it is positive
-- returns  [integer]  1   released: the permits are back
--                     3   same: a count above 0 changes nothing
--                     0   gone: they were given back before, were never taken, or the semaphore is not there
--                     -4  kind: the key is not a counter
--                     -8  overflow: there would be more than 2147483647 permits; nothing was changed
-- example  KEYS seats leasehold:1:op:{seats}:6f0c…:7  ARGV 0 2 1 600000 PUBLISH redisson_sc:{seats}  returns 1

local semaphore_key, record_key = KEYS[1], KEYS[2]
local count, permits, granted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local memory, publish, channel = tonumber(ARGV[4]), ARGV[5], ARGV[6]

local value = short_text(semaphore_key)
if type(value) == 'table' then
  local refusal = refuse_kind(value, semaphore_key)
  if refusal.err then
    return refusal
  end
  return -4
end
if value and not whole(value) then
  return -4
end
if count > 0 then
  return 3
end

local record = short_text(record_key)
if type(record) == 'table' then
  return record
end
if record == '0' then
  return 0
end
local taken = record or granted == 1
local sum = nil
if taken and value then
  sum = whole(value) + permits
  if sum > 2147483647 then
    return -8
  end
end

-- This begins to write without a need for memory: a server whose memory is full lets the script finish.
redis.call('PEXPIRE', record_key, memory)
if sum then
  -- In this order, so that a user who may not publish, or not count, has given nothing back when the server says so, and nothing is given
  -- back that no record tells of.
  if sum > 0 then
    redis.call(publish, channel, sum)
  end
  redis.call('SET', record_key, 0, 'PX', memory)
  local counted = redis.pcall('INCRBY', semaphore_key, permits)
  if type(counted) == 'table' then
    if record then
      redis.call('SET', record_key, record, 'PX', memory)
    else
      redis.call('DEL', record_key)
    end
    return counted
  end
  return 1
end
redis.call('SET', record_key, 0, 'PX', memory)
return 0
