-- Lowers the hold count of a reader, or ends its hold. After the last hold, notifies the waiters. The count is
-- absolute, so a copy changes nothing.
--
-- KEYS[1]  lock      [hash]     mode -> read or write, reader -> count, writer:write -> count; it expires with its longest hold
-- KEYS[2]  readers   [zset]     native readers -> deadline, in the server's milliseconds
-- KEYS[3]  writers   [zset]     native waiting writers -> deadline of their mark
-- KEYS[4]  hold_key  [string]   1, with the lease of this reader as its time to live
-- ARGV[1]  hold      [string]   the field of the reader: uuid:number, or a JVM's uuid:thread
-- ARGV[2]  count     [integer]  the hold count to keep; 0 always ends the hold
-- ARGV[3]  publish   [string]   PUBLISH or SPUBLISH
-- ARGV[4]  channel   [channel]  where waiters listen; gets the message 0 when the last hold ends, or when a waiting writer should retry sooner
-- also     [string]  the hold keys of a JVM's readers: only the fields of the lock name these readers, so no caller can declare the keys
-- returns  [integer]  1   released: the hold has ended
--                     2   lowered: the count is now as requested; the lease is unchanged
--                     3   same: the count already had this value (a duplicate of a successful command)
--                     4   below: the count was already lower (a late duplicate of an older command)
--                     0   absent: the lock is free, or the hold had expired; removes leftovers of the hold, and the index of
--                         readers if no reader remains
--                     -1  other: another hold has the lock; removes leftovers of this hold
--                     -4  kind: the key is not a read-write lock
-- example  KEYS s leasehold:1:rw_readers:{s} leasehold:1:rw_writers:{s} {s}:6f0c…:7:rwlock_timeout:1  ARGV 6f0c…:7 0 PUBLISH redisson_rwlock:{s}  returns 1

local lock_key, readers_key, writers_key, hold_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local hold, count, publish, channel = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

local mode = redis.pcall('HGET', lock_key, 'mode')
if type(mode) == 'table' then
  local refusal = refuse_kind(mode, lock_key)
  if refusal.err then
    return refusal
  end
  return -4
end
if not mode then
  if redis.call('EXISTS', lock_key) == 1 then
    return -4
  end
  -- No indexed reader is alive. A partly failed acquire may have left a hold key.
  redis.call('DEL', readers_key, hold_key)
  return 0
end

local stored = redis.call('HGET', lock_key, hold)
if not stored then
  -- A partly failed acquire may have left both keys.
  redis.call('ZREM', readers_key, hold)
  redis.call('DEL', hold_key)
  return -1
end
stored = hold_count(stored)
if count > 0 then
  if stored > count then
    redis.call('HSET', lock_key, hold, count)
    return 2
  elseif stored == count then
    return 3
  end
  return 4
end

local time = server_time()
local code = hold_left(lock_key, readers_key, hold, time) > 0 and 1 or 0
if mode == 'write' then
  -- The writer still holds the lock.
  forget_reader(lock_key, readers_key, hold)
  return code
end

reap_readers(lock_key, readers_key, time)
local alive, longest = 1, false
if redis.call('HLEN', lock_key) <= 33 then
  alive, longest = scan(lock_key, readers_key, time, hold)
end
if alive == 0 then
  -- Publish first: if the server refuses to publish, the hold is unchanged.
  redis.call(publish, channel, '0')
  redis.call('DEL', lock_key, readers_key, hold_key)
  return code
end

-- A waiting writer sleeps until the lock expires, so the lock must expire with its longest hold. If the script did not
-- inspect all holds, keep the expiry.
local surplus = longest and redis.call('PTTL', lock_key) - longest or 0
if surplus > 40 and redis.call('ZCOUNT', writers_key, time + 1, '+inf') > 0 then
  redis.call(publish, channel, '0')
end
forget_reader(lock_key, readers_key, hold)
if surplus > 0 then
  redis.call('PEXPIRE', lock_key, longest)
end
return code
