-- Grants the write half of a read-write lock, raises its hold count, or leaves a mark against new readers. The count is
-- absolute, so a copy changes nothing.
--
-- KEYS[1]  lock       [hash]     mode -> read or write, reader -> count, writer:write -> count; it expires with its longest hold
-- KEYS[2]  readers    [zset]     native readers -> deadline, in the server's milliseconds
-- KEYS[3]  writers    [zset]     native waiting writers -> deadline of their mark
-- ARGV[1]  hold       [string]   the field of the writer: uuid:number:write
-- ARGV[2]  count      [integer]  the hold count after success, at least 1; only 1 may begin a hold
-- ARGV[3]  lease      [integer]  milliseconds, at least 1; an existing lease is never shortened
-- ARGV[4]  not_after  [integer]  server time in milliseconds after which a first grant and a mark are refused; no limit if
--                                not positive
-- ARGV[5]  reader     [string]   the field of the owner's read hold: uuid:number, or an empty string
-- ARGV[6]  mark       [integer]  milliseconds for which readers yield, 0 for no mark
-- ARGV[7]  publish    [string]   PUBLISH or SPUBLISH
-- ARGV[8]  channel    [channel]  where waiters listen; gets the message 0 when the script finds the last readers expired
-- also     [string]  the hold keys of a JVM's readers: only the fields of the lock name these readers, so no caller can declare the keys
-- returns  [array]    {1, left, time}  granted: the count was one less, or the lock was free
--                     {2, left, time}  held: the count already had this value (a duplicate of a successful command)
--                     {3, left, time}  past: the count is greater (a late duplicate of an older successful command)
--                     {4, left, time, 0, 0, 0}  placed: another hold has the lock, and a mark was set
--                     {0, left, time}  busy: another hold has the lock, and no mark was set
--                     {-1, stored, time}  mismatch: the stored count is too low for this count
--                     {-2, 0, time}    lost: a count above 1 for a missing hold
--                     {-3, 0, time}    too late: the first grant arrived after not_after
--                     {-4, kind}       the key is of another kind, named by kind
--                     {-8, 0, time}    upgrade: the owner holds the read half and would wait for itself
-- where    left is the remaining lease of the lock in milliseconds, -1 without one. For placed and busy behind readers it is the
--          time until the first reader may expire, but at least 40 or the remaining lease; time is the server's time in
--          milliseconds
-- example  KEYS s leasehold:1:rw_readers:{s} leasehold:1:rw_writers:{s}  ARGV 6f0c…:7:write 1 30000 -1 6f0c…:6 0 PUBLISH redisson_rwlock:{s}  returns {1, 30000, 1800000000000}

local lock_key, readers_key, writers_key = KEYS[1], KEYS[2], KEYS[3]
local hold, count, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local not_after, reader, mark = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
local publish, channel = ARGV[7], ARGV[8]

local mode = redis.pcall('HGET', lock_key, 'mode')
if type(mode) == 'table' then
  return refuse_kind(mode, lock_key)
end
if not mode and redis.call('EXISTS', lock_key) == 1 then
  return {-4, 'hash'}
end

local time = server_time()
local in_time = not_after <= 0 or time <= not_after
local empty = mode and reap_readers(lock_key, readers_key, time)

local stored = redis.call('HGET', lock_key, hold)
if stored then
  stored = hold_count(stored)
  if stored > count then
    return {3, redis.call('PTTL', lock_key), time}
  elseif stored == count then
    return {2, extend_lease(lock_key, lease), time}
  elseif stored == count - 1 then
    -- Extend the lease first, so an error leaves the count unchanged.
    local left = extend_lease(lock_key, lease)
    if redis.call('HSET', lock_key, hold, count) == 1 then
      -- The server's clock jumped back and the key expired. HSET recreated it without `mode`, which is not a lock.
      redis.call('DEL', lock_key)
      return {-2, 0, time}
    end
    return {1, left, time}
  end
  return {-1, stored, time}
end

local first = nil
if mode == 'read' and not empty then
  if reader ~= '' and redis.call('HEXISTS', lock_key, reader) == 1
    and hold_left(lock_key, readers_key, reader, time) > 0 then
    redis.call('ZREM', writers_key, hold)
    return {-8, 0, time}
  end
  local fields = redis.call('HLEN', lock_key)
  if fields <= 33 or fields - 1 ~= redis.call('ZCARD', readers_key) then
    local alive, _, shortest = scan(lock_key, readers_key, time, '')
    empty, first = alive == 0, shortest
  end
end
if empty then
  -- Always notify, so no waiter waits for expired readers.
  redis.call(publish, channel, '0')
  redis.call('DEL', lock_key, readers_key)
  mode = false
end

if count > 1 then
  return {-2, 0, time}
end
if mode then
  local left = redis.call('PTTL', lock_key)
  if mode == 'read' and left > 0 then
    -- A reader that dies, or leaves while other readers remain, publishes no message. So the writer retries when the
    -- first reader may have expired.
    if not first then
      local reader_of_ours = redis.call('ZRANGEBYSCORE', readers_key, '-inf', '+inf', 'LIMIT', 0, 1)[1]
      first = reader_of_ours and hold_left(lock_key, readers_key, reader_of_ours, time) or left
    end
    left = math.min(left, math.max(first, 40))
  end
  if mark > 0 and in_time then
    local keep = math.max(mark, redis.call('PTTL', writers_key))
    local over = redis.call('ZRANGEBYSCORE', writers_key, '-inf', time, 'LIMIT', 0, 1000)
    if #over > 0 then
      redis.call('ZREM', writers_key, unpack(over))
    end
    -- Set this expiry before the mark too. A user without permission for PEXPIRE then leaves no mark without expiry.
    redis.call('PEXPIRE', writers_key, keep)
    redis.call('ZADD', writers_key, time + mark, hold)
    redis.call('PEXPIRE', writers_key, keep)
    return {4, left, time, 0, 0, 0}
  end
  return {0, left, time}
end
if not in_time then
  return {-3, 0, time}
end

-- The grant comes last, so no earlier error leaves a hold behind. The first ZADD changes nothing, but needs memory like
-- the grant. A server that is out of memory lets a script finish after its first write.
redis.call('ZADD', writers_key, 'XX', 0, '')
redis.call('ZREM', writers_key, hold)
redis.call('DEL', readers_key)
redis.call('HSET', lock_key, 'mode', 'write', hold, 1)
local set = redis.pcall('PEXPIRE', lock_key, lease)
if type(set) == 'table' then
  -- A user without permission for PEXPIRE must not leave a lock without expiry.
  if type(redis.pcall('DEL', lock_key)) == 'table' then
    return redis.error_reply('ERR the lock was granted, and PEXPIRE and DEL are refused')
  end
  return set
end
return {1, lease, time}
