-- Grants the simple lock, or extends the lease of its hold. The value of the key is the caller's id, as in go-zero,
-- without a hold count.
--
-- KEYS[1]  lock       [string]   the id of the hold, with the lease as its time to live
-- ARGV[1]  hold       [string]   the id of the hold
-- ARGV[2]  count      [integer]  the hold count after success, at least 1; only 1 may create the lock; it is not stored
-- ARGV[3]  lease      [integer]  milliseconds, at least 1; an existing lease is never shortened
-- ARGV[4]  not_after  [integer]  server time in milliseconds after which a first grant is refused; 0 sets no limit and
--                                requests the server's time; -1 sets no limit and does not read the clock
-- returns  [array]    {1, left, time}  granted: the lock was free
--                     {2, left, time}  held: the key already has this id
--                     {0, left, time}  busy: another id has the lock; left is -1 if the key has no time to live
--                     {-2, 0, time}    lost: a count above 1 for a missing hold
--                     {-3, 0, time}    too late: the first grant arrived after not_after
--                     {-4, kind}       the key is of another kind, named by kind
-- where    left is the remaining lease in milliseconds, time the server's time in milliseconds, or 0 if not read
-- example  KEYS stock:1001  ARGV Xu2k 1 5500 -1  returns {1, 5500, 0}

local lock_key = KEYS[1]
local hold, count = ARGV[1], tonumber(ARGV[2])
local lease, not_after = ARGV[3], tonumber(ARGV[4])

local stored = short_text(lock_key)
if type(stored) == 'table' then
  return refuse_kind(stored, lock_key)
end

local time = 0
if not_after >= 0 then
  time = server_time()
end

if stored == hold then
  return {2, extend_lease(lock_key, lease), time}
elseif count > 1 then
  return {-2, 0, time}
elseif stored then
  return {0, redis.call('PTTL', lock_key), time}
elseif not_after > 0 and time > not_after then
  return {-3, 0, time}
end

redis.call('SET', lock_key, hold, 'PX', lease)
return {1, tonumber(lease), time}
