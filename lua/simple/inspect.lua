-- Returns the holder of the simple lock. Read-only.
--
-- KEYS[1]  lock  [string]  the id of the hold, with the lease as its time to live
-- returns  [array]  {0}              the lock is free
--                   {1, left, hold, count}  left is the remaining lease in milliseconds, -1 if the key has no time to live; then the id
--                                    of the hold, and 1
--                   {-4, kind}       the key is of another kind, named by kind
-- example  KEYS stock:1001  returns {1, 5210, "Xu2k", 1}

local lock_key = KEYS[1]

local stored = short_text(lock_key)
if type(stored) == 'table' then
  return refuse_kind(stored, lock_key)
end
if not stored then
  return {0}
end
return {1, redis.call('PTTL', lock_key), stored, 1}
