-- Renews the holds of many readers in one call. A missing key or a key of another kind does not affect other holds. An
-- expired hold is never revived.
--
-- KEYS[3i-2] lock      [hash]     the i-th lock: mode -> read or write, reader -> count, writer:write -> count
-- KEYS[3i-1] readers   [zset]     its native readers -> deadline, in the server's milliseconds
-- KEYS[3i]   hold_key  [string]   1, with the lease of the i-th hold as its time to live
-- ARGV[4i-3] hold      [string]   the field of the i-th hold: uuid:number
-- ARGV[4i-2] lease     [integer]  milliseconds; an existing lease is never shortened; 0 leaves the hold unchanged and restores the time to live
--                                 of the lock, if a JVM's renewal has shortened it
-- ARGV[4i-1] publish   [string]   PUBLISH or SPUBLISH
-- ARGV[4i]   channel   [channel]  where its waiters listen; gets the message 0 when the script finds the last reader expired
-- also       [string]  the hold keys of a JVM's readers: only the fields of the lock name these readers, so no caller can declare the keys
-- returns    [array]  two integers for each hold, in order: {count, left, count, left, ...}
--                     count is the hold count, 0 where the hold is gone, -4 where the key is not a hash,
--                     -5 where the server refused this key; left is the remaining time of the hold in milliseconds, 0 if count is not positive
-- example    KEYS s leasehold:1:rw_readers:{s} {s}:6f0c…:7:rwlock_timeout:1  ARGV 6f0c…:7 30000 PUBLISH redisson_rwlock:{s}  returns {1, 30000}

local reply = {}
local time = server_time()
for i = 1, #KEYS / 3 do
  local count, left = 0, 0
  local hold, lease = ARGV[4 * i - 3], tonumber(ARGV[4 * i - 2])
  local stored = redis.pcall('HGET', KEYS[3 * i - 2], hold)
  if type(stored) == 'table' then
    count = refuse_kind(stored, KEYS[3 * i - 2]).err and -5 or -4
  elseif stored then
    left = hold_left(KEYS[3 * i - 2], KEYS[3 * i - 1], hold, time)
    if left > 0 then
      count = hold_count(stored)
      extend_lease(KEYS[3 * i - 2], math.max(left, lease))
      if lease > left then
        left = lease
        -- Run PEXPIRE first, because it needs no memory. A server that is out of memory lets a script finish after its
        -- first write.
        if redis.call('PEXPIRE', KEYS[3 * i], left) == 0 then
          redis.call('SET', KEYS[3 * i], '1', 'PX', left)
        end
        redis.call('ZADD', KEYS[3 * i - 1], time + left, hold)
        extend_lease(KEYS[3 * i - 1], left + 600000)
      end
    else
      left = 0
      forget_reader(KEYS[3 * i - 2], KEYS[3 * i - 1], hold)
      if redis.call('HLEN', KEYS[3 * i - 2]) == 1 then
        redis.call(ARGV[4 * i - 1], ARGV[4 * i], '0')
        redis.call('DEL', KEYS[3 * i - 2], KEYS[3 * i - 1])
      end
    end
  elseif redis.call('EXISTS', KEYS[3 * i - 2]) == 0 then
    -- No indexed reader is alive.
    redis.call('DEL', KEYS[3 * i - 1])
  end
  reply[2 * i - 1] = count
  reply[2 * i] = left
end
return reply
