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
-- Prelude: the server's own clock, in milliseconds since the epoch. Clients' clocks decide nothing.

local function server_time()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
-- Takes the lock, or raises the hold count of the hold that has it. The count is absolute, so a copy changes nothing.
--
-- KEYS[1]  lock       [hash]     hold -> count, with the lease as its time to live
-- ARGV[1]  hold       [string]   the field of the hold: uuid:number
-- ARGV[2]  count      [integer]  the hold count after success, at least 1; only 1 may create the lock
-- ARGV[3]  lease      [integer]  milliseconds, at least 1; an existing lease is never shortened
-- ARGV[4]  not_after  [integer]  server time in milliseconds after which a first grant is refused; 0 sets no limit and
--                                asks for the server's time; -1 sets no limit and spares the reading of the clock
-- returns  [array]    {1, left, time}  granted: the count was one less, or the lock was free
--                     {2, left, time}  held: the count was this already (a copy of a command that succeeded)
--                     {3, left, time}  past: the count is greater (a late copy of an older command that succeeded)
--                     {0, left, time}  busy: another hold has it; left is -1 where the key has no time to live
--                     {-1, stored, time}  mismatch: the stored count is too low for this count
--                     {-2, 0, time}    lost: a count above 1 of a hold that is not there
--                     {-3, 0, time}    too late: the first grant arrived after not_after
--                     {-4, kind}       the key is of another kind, named by kind
-- where    left is the lease left in milliseconds, time the server's time in milliseconds, or 0 where it was not read
-- example  KEYS stock:1001  ARGV 6f0c…:7 1 30000 -1  returns {1, 30000, 0}

local lock_key = KEYS[1]
local hold, count = ARGV[1], tonumber(ARGV[2])
local lease, not_after = tonumber(ARGV[3]), tonumber(ARGV[4])

local stored = redis.pcall('HGET', lock_key, hold)
if type(stored) == 'table' then
  return refuse_kind(stored, lock_key)
end

local time = 0
if not_after >= 0 then
  time = server_time()
end

if stored then
  stored = tonumber(stored)
  if stored > count then
    return {3, redis.call('PTTL', lock_key), time}
  elseif stored == count then
    return {2, extend_lease(lock_key, lease), time}
  elseif stored == count - 1 then
    -- In this order, so that an error in between leaves the count as it was.
    local left = extend_lease(lock_key, lease)
    redis.call('HSET', lock_key, hold, count)
    return {1, left, time}
  end
  return {-1, stored, time}
end

if count > 1 then
  return {-2, 0, time}
end

if redis.call('EXISTS', lock_key) == 1 then
  if redis.call('HEXISTS', lock_key, 'mode') == 1 then
    return {-4, 'read-write lock'}
  end
  return {0, redis.call('PTTL', lock_key), time}
end

if not_after > 0 and time > not_after then
  return {-3, 0, time}
end

redis.call('HSET', lock_key, hold, 1)
local set = redis.pcall('PEXPIRE', lock_key, lease)
if type(set) == 'table' then
  -- A user who may not set a time to live must not leave a lock without one.
  redis.call('DEL', lock_key)
  return set
end
return {1, lease, time}
