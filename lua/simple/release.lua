-- Ends a hold of the simple lock. Publishes no message, because waiters poll this lock.
--
-- KEYS[1]  lock   [string]   the id of the hold, with the lease as its time to live
-- ARGV[1]  hold   [string]   the id of the hold
-- ARGV[2]  count  [integer]  the hold count to keep; 0 ends the hold, any other count changes nothing
-- returns  [integer]  1   released: the hold has ended
--                     3   same: the hold exists and keeps its count
--                     0   absent: the lock is free
--                     -1  other: another hold has the lock
--                     -4  kind: the key is not a string
-- example  KEYS stock:1001  ARGV Xu2k 0  returns 1

local lock_key = KEYS[1]
local hold, count = ARGV[1], tonumber(ARGV[2])

local stored = short_text(lock_key)
if type(stored) == 'table' then
  local refusal = refuse_kind(stored, lock_key)
  if refusal.err then
    return refusal
  end
  return -4
end

if not stored then
  return 0
elseif stored ~= hold then
  return -1
elseif count > 0 then
  return 3
end
redis.call('DEL', lock_key)
return 1
