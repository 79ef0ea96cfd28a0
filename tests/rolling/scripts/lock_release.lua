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
-- Lowers the hold count of a hold, or ends it and tells the waiters. The count is absolute, so a copy changes nothing.
--
-- KEYS[1]  lock     [hash]     hold -> count, with the lease as its time to live
-- KEYS[2]  channel  [channel]  where waiters listen; gets the message 0 when the hold ends
-- ARGV[1]  hold     [string]   the field of the hold: uuid:number
-- ARGV[2]  count    [integer]  the hold count that shall remain; 0 always ends the hold
-- ARGV[3]  publish  [string]   PUBLISH or SPUBLISH
-- returns  [integer]  1   released: the hold has ended, and the message was published
--                     2   lowered: the count is now what was asked; the lease is untouched
--                     3   same: the count was this already (a copy of a command that succeeded)
--                     4   below: the count is lower already (a late copy of an older command)
--                     0   absent: nobody holds the lock
--                     -1  other: somebody else holds it
--                     -4  kind: the key is not a hash
-- example  KEYS stock:1001 redisson_lock__channel:{stock:1001}  ARGV 6f0c…:7 0 PUBLISH  returns 1

local lock_key, channel = KEYS[1], KEYS[2]
local hold, count, publish = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local stored = redis.pcall('HGET', lock_key, hold)
if type(stored) == 'table' then
  local refusal = refuse_kind(stored, lock_key)
  if refusal.err then
    return refusal
  end
  return -4
end

if not stored then
  if redis.call('EXISTS', lock_key) == 1 then
    return -1
  end
  return 0
end

stored = tonumber(stored)
if count == 0 then
  -- In this order, so that a user who may not publish has released nothing when the server says so.
  redis.call(publish, channel, '0')
  redis.call('DEL', lock_key)
  return 1
elseif stored > count then
  redis.call('HSET', lock_key, hold, count)
  return 2
elseif stored == count then
  return 3
end
return 4
