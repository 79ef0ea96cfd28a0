-- Grants the fenced lock or raises the hold count of its hold, and returns the fencing token of the grant. Count and
-- token are absolute, so a duplicate changes nothing.
--
-- KEYS[1]  lock       [hash]     hold -> count, with the lease as its time to live
-- KEYS[2]  token      [string]   the last fencing token, in decimal; it has no time to live and is never deleted
-- ARGV[1]  hold       [string]   the field of the hold: uuid:number
-- ARGV[2]  count      [integer]  the hold count after success, at least 1; only 1 may create the lock
-- ARGV[3]  lease      [integer]  milliseconds, at least 1; an existing lease is never shortened
-- ARGV[4]  not_after  [integer]  server time in milliseconds after which a first grant is refused; 0 sets no limit and
--                                requests the server's time; -1 sets no limit and does not read the clock
-- returns  [array]    {1, left, time, token}  granted: the count was one less, or the lock was free; a first grant has
--                                             a token greater than all before it
--                     {2, left, time, token}  held: the count already had this value (a duplicate of a successful command)
--                     {3, left, time, token}  past: the count is greater (a late duplicate of an older successful command)
--                     {0, left, time}  busy: another hold has the lock; left is -1 if the key has no time to live
--                     {-1, stored, time}  mismatch: the stored count is too low for this count
--                     {-2, 0, time}    lost: a count above 1 for a missing hold
--                     {-3, 0, time}    too late: the first grant arrived after not_after
--                     {-4, kind}       one of the keys is of another kind, named by kind
-- where    left is the remaining lease in milliseconds, time the server's time in milliseconds, or 0 if not read, token the
--          fencing token in decimal, below 2^53; a re-entry returns the token of the first grant
-- example  KEYS stock:1001 redisson_lock_token:{stock:1001}  ARGV 6f0c…:7 1 30000 -1  returns {1, 30000, 0, "1800000000000000"}

local lock_key, token_key = KEYS[1], KEYS[2]
local ask = {hold = ARGV[1], count = tonumber(ARGV[2]), lease = ARGV[3], not_after = tonumber(ARGV[4])}

local stored = redis.pcall('HGET', lock_key, ask.hold)
if type(stored) == 'table' then
  return refuse_kind(stored, lock_key)
end

local last = short_text(token_key)
if type(last) == 'table' then
  return refuse_kind(last, token_key)
end
local exhausted = refuse_token(last)
if exhausted then
  return exhausted
end

local time = 0
if ask.not_after >= 0 then
  time = server_time()
end

if stored then
  local same = same_token(token_key, last)
  return complete(raise_hold(lock_key, ask, hold_count(stored)), time, same)
end
local refusal = refuse_grant(lock_key, ask, time)
if refusal then
  return refusal
end
-- Write the token first: a token without a grant only leaves a gap.
local new = next_token(token_key, last)
return complete(grant_hold(lock_key, ask), time, new)
