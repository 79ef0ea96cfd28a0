-- Lowers the hold count of a writer, or ends its hold and notifies all waiters. A writer that also reads becomes a
-- reader. Ending a hold also removes its mark, even for a waiter. The count is absolute, so a duplicate changes
-- nothing.
--
-- KEYS[1]  lock     [hash]     mode -> read or write, reader -> count, writer:write -> count; it expires with its longest hold
-- KEYS[2]  readers  [zset]     native readers -> deadline, in the server's milliseconds
-- KEYS[3]  writers  [zset]     native waiting writers -> deadline of their mark
-- ARGV[1]  hold     [string]   the field of the writer: uuid:number:write
-- ARGV[2]  count    [integer]  the hold count to keep; 0 always ends the hold
-- ARGV[3]  publish  [string]   PUBLISH or SPUBLISH
-- ARGV[4]  channel  [channel]  where waiters listen; gets the message 1 when the hold ends, and when the last mark is removed
-- also     [string]  the hold keys of a JVM's readers: only the fields of the lock name these readers, so no caller can declare the keys
-- returns  [integer]  1   released: the hold has ended, and the message was published
--                     2   lowered: the count is now as requested; the lease is unchanged
--                     3   same: the count already had this value (a duplicate of a successful command)
--                     4   below: the count was already lower (a late duplicate of an older command)
--                     0   absent: the lock is free; removes a leftover index of readers
--                     -1  other: another hold has the lock
--                     -4  kind: the key is not a read-write lock
-- example  KEYS s leasehold:1:rw_readers:{s} leasehold:1:rw_writers:{s}  ARGV 6f0c…:7:write 0 PUBLISH redisson_rwlock:{s}  returns 1

local lock_key, readers_key, writers_key = KEYS[1], KEYS[2], KEYS[3]
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
  -- No indexed reader is alive.
  redis.call('DEL', readers_key)
end

local stored = mode and redis.call('HGET', lock_key, hold)
if stored and count > 0 then
  stored = hold_count(stored)
  if stored > count then
    redis.call('HSET', lock_key, hold, count)
    return 2
  elseif stored == count then
    return 3
  end
  return 4
end

local time = server_time()
if stored then
  reap_readers(lock_key, readers_key, time)
  local alive, longest = scan(lock_key, readers_key, time, hold)
  -- Publish first: if the server refuses to publish, the hold is unchanged.
  redis.call(publish, channel, '1')
  redis.call('ZREM', writers_key, hold)
  if alive == 0 then
    redis.call('DEL', lock_key, readers_key)
  else
    -- Delete the hold last, so a release can be repeated. A lock in write mode without its writer would admit nobody.
    redis.call('HSET', lock_key, 'mode', 'read')
    if longest then
      redis.call('PEXPIRE', lock_key, longest)
    end
    redis.call('HDEL', lock_key, hold)
  end
  return 1
end

local mark = count == 0 and redis.call('ZSCORE', writers_key, hold)
if mark then
  local living = redis.call('ZCOUNT', writers_key, time + 1, '+inf')
  if tonumber(mark) > time then
    living = living - 1
  end
  if living == 0 and mode ~= 'write' then
    redis.call(publish, channel, '1')
  end
  redis.call('ZREM', writers_key, hold)
end
return mode and -1 or 0
