-- Grants the read half of a read-write lock, or raises the hold count of a reader. The count is absolute, so a copy
-- changes nothing.
--
-- KEYS[1]  lock       [hash]     mode -> read or write, reader -> count, writer:write -> count; it expires with its longest hold
-- KEYS[2]  readers    [zset]     native readers -> deadline, in the server's milliseconds
-- KEYS[3]  writers    [zset]     native waiting writers -> deadline of their mark
-- KEYS[4]  hold_key   [string]   1, with the lease of this reader as its time to live
-- ARGV[1]  hold       [string]   the field of the reader: uuid:number
-- ARGV[2]  count      [integer]  the hold count after success, at least 1; only 1 may begin a hold
-- ARGV[3]  lease      [integer]  milliseconds, at least 1; an existing lease is never shortened
-- ARGV[4]  not_after  [integer]  server time in milliseconds after which a first grant is refused; no limit if not positive
-- ARGV[5]  writer     [string]   the field of the writer that may hold the lock at the same time: uuid:number:write
-- ARGV[6]  prefer     [integer]  1 to yield to waiting writers, else 0
-- ARGV[7]  publish    [string]   PUBLISH or SPUBLISH
-- ARGV[8]  channel    [channel]  where waiters listen; gets the message 0 when the script finds the last readers expired
-- also     [string]  the hold keys of a JVM's readers: only the fields of the lock name these readers, so no caller can declare the keys
-- returns  [array]    {1, left, time}  granted: the count was one less, or the lock was free, or held by readers or this writer
--                     {2, left, time}  held: the count already had this value (a duplicate of a successful command)
--                     {3, left, time}  past: the count is greater (a late duplicate of an older successful command)
--                     {0, left, time}  busy: a writer holds the lock, or waits and is preferred; left is the remaining lease, or the time of
--                                      the mark if that is shorter; -1 if the key has no time to live
--                     {-1, stored, time}  mismatch: the stored count is too low for this count
--                     {-2, 0, time}    lost: a count above 1 for a missing or expired hold
--                     {-3, 0, time}    too late: the first grant arrived after not_after
--                     {-4, kind}       the key is of another kind, named by kind
-- where    left is the remaining time of this reader's hold in milliseconds, time the server's time in milliseconds
-- example  KEYS s leasehold:1:rw_readers:{s} leasehold:1:rw_writers:{s} {s}:6f0c…:7:rwlock_timeout:1  ARGV 6f0c…:7 1 30000 -1 6f0c…:7:write 0 PUBLISH redisson_rwlock:{s}  returns {1, 30000, 1800000000000}

local lock_key, readers_key, writers_key, hold_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local hold, count, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local not_after, writer, prefer = tonumber(ARGV[4]), ARGV[5], ARGV[6]
local publish, channel = ARGV[7], ARGV[8]

local mode = redis.pcall('HGET', lock_key, 'mode')
if type(mode) == 'table' then
  return refuse_kind(mode, lock_key)
end
if not mode and redis.call('EXISTS', lock_key) == 1 then
  return {-4, 'hash'}
end

local time = server_time()
local stored, left = false, 0
if mode then
  local empty = reap_readers(lock_key, readers_key, time)
  stored = redis.call('HGET', lock_key, hold)
  if stored then
    left = hold_left(lock_key, readers_key, hold, time)
    if left <= 0 then
      -- An expired hold is lost, even for a re-entry.
      forget_reader(lock_key, readers_key, hold)
      stored, left = false, 0
      empty = redis.call('HLEN', lock_key) == 1
    end
  end
  if empty then
    redis.call(publish, channel, '0')
    redis.call('DEL', lock_key, readers_key)
    mode = false
  end
end

if stored then
  stored = hold_count(stored)
  if stored > count then
    return {3, left, time}
  elseif stored < count - 1 then
    return {-1, stored, time}
  end
elseif count > 1 then
  return {-2, 0, time}
else
  local beside = mode == 'write' and redis.call('HEXISTS', lock_key, writer) == 1
  if mode == 'write' and not beside then
    return {0, redis.call('PTTL', lock_key), time}
  end
  if prefer == '1' and not beside then
    local last = redis.call('ZRANGE', writers_key, -1, -1, 'WITHSCORES')[2]
    local wait = last and tonumber(last) - time or 0
    if wait > 0 then
      local lock_left = mode and redis.call('PTTL', lock_key) or -1
      return {0, lock_left >= 0 and math.min(lock_left, wait) or wait, time}
    end
  end
  if not_after > 0 and time > not_after then
    return {-3, 0, time}
  end
end

-- The order makes errors safe: the count stays unchanged, every reader has a deadline, and every key an expiry. So
-- reads come first, then the first write with its own expiry, then the commands that set an expiry.
left = math.max(left, lease)
-- The index outlives the lock by ten minutes, so every hold has its deadline.
local keep = math.max(left, mode and redis.call('PTTL', lock_key) or 0) + 600000
local kept = redis.call('PTTL', readers_key)
redis.call('SET', hold_key, '1', 'PX', left)
redis.call('PEXPIRE', hold_key, left)
if not mode then
  redis.call('DEL', readers_key)
  kept = 0
end
redis.call('ZADD', readers_key, time + left, hold)
if kept < keep then
  redis.call('PEXPIRE', readers_key, keep)
end
if mode then
  redis.call('HSET', lock_key, hold, count)
  extend_lease(lock_key, left)
else
  redis.call('HSET', lock_key, 'mode', 'read', hold, count)
  local set = redis.pcall('PEXPIRE', lock_key, left)
  if type(set) == 'table' then
    -- A user without permission for PEXPIRE must not leave a lock without expiry.
    if type(redis.pcall('DEL', lock_key, readers_key, hold_key)) == 'table' then
      return redis.error_reply('ERR the lock was granted, and PEXPIRE and DEL are refused')
    end
    return set
  end
end
if stored == count then
  return {2, left, time}
end
return {1, left, time}
