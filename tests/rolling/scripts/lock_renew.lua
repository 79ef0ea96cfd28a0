-- Prelude: tells a key of another kind from the lock that a script expects.
--
-- A first read goes through redis.pcall, so that a key of another type costs nothing until it is met. The refusal is the
-- flat array {-4, kind}: the type of the key, or "read-write lock" for a hash that carries Redisson's field `mode`.

local function refuse_kind(failure, key)
  if string.find(failure.err, 'WRONGTYPE', 1, true) then
    return {-4, redis.call('TYPE', key).ok}
  end
  return failure
end
-- Prelude: gives a key a lease that never shortens the one it has. Returns the lease left, in milliseconds.

local function extend_lease(key, lease)
  local left = redis.call('PTTL', key)
  if left >= lease then
    return left
  end
  redis.call('PEXPIRE', key, lease)
  return lease
end
-- Renews the leases of many locks in one call. Each key stands alone: one that is gone, or of another kind, harms no other.
--
-- KEYS[i]    lock   [hash]     the i-th lock
-- ARGV[2i-1] hold   [string]   the field of the i-th hold: uuid:number
-- ARGV[2i]   lease  [integer]  milliseconds, at least 1; an existing lease is never shortened
-- returns    [array]  two integers for each lock, in order: {count, left, count, left, ...}
--                     count is the hold count, 0 where the hold is gone, -4 where the key is not a hash,
--                     -5 where the server refused this key; left is the lease left in milliseconds, 0 where count is not positive
-- example    KEYS a b  ARGV 6f0c…:7 30000 6f0c…:8 30000  returns {1, 30000, 0, 0}

local reply = {}
for i = 1, #KEYS do
  local count, left = 0, 0
  local stored = redis.pcall('HGET', KEYS[i], ARGV[2 * i - 1])
  if type(stored) == 'table' then
    count = refuse_kind(stored, KEYS[i]).err and -5 or -4
  elseif stored then
    count = tonumber(stored)
    left = extend_lease(KEYS[i], tonumber(ARGV[2 * i]))
  end
  reply[2 * i - 1] = count
  reply[2 * i] = left
end
return reply
