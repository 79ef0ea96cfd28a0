-- Lowers the hold count of a hold, or ends the hold and notifies the waiters. The count is absolute, so a copy changes
-- nothing. An ended hold may keep the lock busy for a while. The lock's field then changes, so no command that names
-- the hold finds the lock.
--
-- KEYS[1]  lock     [hash]     hold -> count, with the lease as its time to live
-- ARGV[1]  hold     [string]   the field of the hold: uuid:number
-- ARGV[2]  count    [integer]  the hold count to keep; 0 always ends the hold
-- ARGV[3]  publish  [string]   PUBLISH or SPUBLISH; SILENT if nobody listens (spin lock)
-- ARGV[4]  keep     [integer]  milliseconds for which the lock stays busy after the hold; 0 frees the lock
-- ARGV[5]  kept     [string]   the field of the lock for that time: uuid:number!; empty if keep is 0
-- ARGV[6]  channel  [channel]  where waiters listen; gets the message 0 when the hold ends
-- returns  [integer]  1   released: the hold has ended, and the message was published unless SILENT; no connection listens
--                     6   heard: released, and one connection got the message
--                     7   heard by several: released, and several connections got the message
--                     2   lowered: the count is now as requested; the lease is unchanged
--                     3   same: the count already had this value (a duplicate of a successful command)
--                     4   below: the count was already lower (a late duplicate of an older command)
--                     5   kept: the hold has ended and keeps the lock busy (a duplicate of a successful command); only if keep is positive
--                     0   absent: the lock is free
--                     -1  other: another hold has the lock
--                     -4  kind: the key is not a hash
-- example  KEYS stock:1001  ARGV 6f0c…:7 0 PUBLISH 0 "" redisson_lock__channel:{stock:1001}  returns 1

local lock_key = KEYS[1]
local hold, count, publish, keep = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local kept, channel = ARGV[5], ARGV[6]

local stored = redis.pcall('HGET', lock_key, hold)
if type(stored) == 'table' then
  local refusal = refuse_kind(stored, lock_key)
  if refusal.err then
    return refusal
  end
  return -4
end

if not stored then
  if keep ~= '0' and redis.call('HEXISTS', lock_key, kept) == 1 then
    return 5
  end
  if redis.call('EXISTS', lock_key) == 1 then
    return -1
  end
  return 0
end

if count == 0 then
  -- Publish first: if the server refuses to publish, the hold is unchanged.
  local heard = 0
  if publish ~= 'SILENT' then
    heard = redis.call(publish, channel, '0')
  end
  local released = heard == 0 and 1 or heard == 1 and 6 or 7
  if keep == '0' then
    redis.call('DEL', lock_key)
    return released
  end
  -- The message above makes waiters read the new lease. Write the new field before deleting the old field, because an
  -- empty hash would lose its time to live.
  redis.call('PEXPIRE', lock_key, keep)
  redis.call('HSET', lock_key, kept, '1')
  if redis.call('HDEL', lock_key, hold) == 0 then
    -- The server's clock jumped back and the key expired. HSET recreated it without a time to live.
    redis.call('PEXPIRE', lock_key, keep)
  end
  return released
end

stored = hold_count(stored)
if stored > count then
  redis.call('HSET', lock_key, hold, count)
  return 2
elseif stored == count then
  return 3
end
return 4
