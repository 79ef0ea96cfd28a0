-- Returns the permits of a hold once, and notifies the waiters. Afterwards every late duplicate of the acquire is
-- refused.
--
-- KEYS[1]  semaphore  [string]   the number of available permits, in decimal
-- KEYS[2]  record     [string]   the total change by the hold; 0 after the return of its permits
-- ARGV[1]  count      [integer]  the hold count to keep; 0 returns the permits, any other count changes nothing
-- ARGV[2]  permits    [integer]  the number of permits of the hold, at least 1
-- ARGV[3]  granted    [integer]  1 if the grant is certain: its permits are returned even without a record,
--                                because a long hold outlives its record; 0 if only a record proves a grant
-- ARGV[4]  memory     [integer]  the lifetime of the record in milliseconds
-- ARGV[5]  publish    [string]   PUBLISH or SPUBLISH
-- ARGV[6]  channel    [channel]  where waiters listen; gets the new number of available permits when it is positive
-- returns  [integer]  1   released: the permits are returned
--                     3   same: a count above 0 changes nothing
--                     0   gone: returned before, never taken, or the semaphore is missing
--                     -4  kind: the key is not a counter
--                     -8  overflow: the semaphore would have more than 2147483647 permits; nothing was changed
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

-- Run PEXPIRE first, because it needs no memory. A server that is out of memory lets a script finish after its first
-- write.
redis.call('PEXPIRE', record_key, memory)
if sum then
  -- Publish first, then write the record, then the counter. If the server refuses one command, no permit was returned.
  -- No permit returns without a record.
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
