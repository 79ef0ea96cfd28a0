-- Lowers the hold count of a reader, or ends its hold, and tells the waiters where it was the last. The count is absolute, so a copy
-- changes nothing.
--
-- KEYS[1]  lock      [hash]     mode -> read or write, reader -> count, writer:write -> count; it lives as long as its longest hold
-- KEYS[2]  readers   [zset]     readers of ours -> deadline, in the server's milliseconds
-- KEYS[3]  writers   [zset]     waiting writers of ours -> deadline of their mark
-- KEYS[4]  hold_key  [string]   1, with the lease of this reader as its time to live
-- ARGV[1]  hold      [string]   the field of the reader: uuid:number, or a JVM's uuid:thread
-- ARGV[2]  count     [integer]  the hold count that shall remain; 0 always ends the hold
-- ARGV[3]  publish   [string]   PUBLISH or SPUBLISH
-- ARGV[4]  channel   [channel]  where waiters listen; gets the message 0 when nobody is left, and when a waiting writer may look sooner
-- returns  [integer]  1   released: the hold has ended
--                     2   lowered: the count is now what was asked; the lease is untouched
--                     3   same: the count was this already (a copy of a command that succeeded)
--                     4   below: the count is lower already (a late copy of an older command)
--                     0   absent: nobody holds the lock, or the hold was over before; what was left of it, and the index of
--                         readers where nobody is left, is removed
--                     -1  other: somebody else holds it; what was left of the hold is removed
--                     -4  kind: the key is no read-write lock
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
  -- Nobody is left of those of whom the index tells; and an acquire that failed in its middle may have left a hold key.
  redis.call('DEL', readers_key, hold_key)
  return 0
end

local stored = redis.call('HGET', lock_key, hold)
if not stored then
  -- An acquire that failed in its middle may have left these.
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
  -- The writer keeps the lock.
  forget_reader(lock_key, readers_key, hold)
  return code
end

reap_readers(lock_key, readers_key, time)
local alive, longest = 1, false
if redis.call('HLEN', lock_key) <= 33 then
  alive, longest = scan(lock_key, readers_key, time, hold)
end
if alive == 0 then
  -- In this order, so that a user who may not publish has released nothing when the server says so.
  redis.call(publish, channel, '0')
  redis.call('DEL', lock_key, readers_key, hold_key)
  return code
end

-- A writer sleeps as long as the lock lives, so the lock lives no longer than its longest hold; but where not every hold was seen,
-- it is left alone.
local surplus = longest and redis.call('PTTL', lock_key) - longest or 0
if surplus > 40 and redis.call('ZCOUNT', writers_key, time + 1, '+inf') > 0 then
  redis.call(publish, channel, '0')
end
forget_reader(lock_key, readers_key, hold)
if surplus > 0 then
  redis.call('PEXPIRE', lock_key, longest)
end
return code
