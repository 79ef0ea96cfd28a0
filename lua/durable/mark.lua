-- Writes the lease that a lock has once more, and changes nothing by it. WAIT speaks, on newer servers, of
-- nothing but what the same connection has written; a copy of an acquire finds its work done and writes nothing, and would be
-- told of replicas that know nothing of it. Behind this write WAIT speaks of everything that was written before.
--
-- KEYS[1]  lock       [hash]  any key with a time to live
-- returns  [integer]  1  written
--                     0  there is no such key, or it has no time to live: WAIT proves nothing
-- example  KEYS stock:1001  returns 1

local lock_key = KEYS[1]

local left = redis.call('PTTL', lock_key)
if left <= 0 then
  return 0
end
redis.call('PEXPIRE', lock_key, left)
return 1
