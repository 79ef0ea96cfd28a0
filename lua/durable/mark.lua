-- Rewrites the remaining lease of a lock, unchanged. On newer servers, WAIT only covers writes of its own connection. A
-- duplicate acquire writes nothing, so WAIT would count replicas without the grant. After this write, WAIT covers all
-- earlier writes.
--
-- KEYS[1]  lock       [hash]  any key with a time to live
-- returns  [integer]  1  written
--                     0  the key is missing or has no time to live: WAIT proves nothing
-- example  KEYS stock:1001  returns 1

local lock_key = KEYS[1]

local left = redis.call('PTTL', lock_key)
if left <= 0 then
  return 0
end
redis.call('PEXPIRE', lock_key, left)
return 1
