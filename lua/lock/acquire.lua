-- Grants the lock or raises the hold count of its hold. The count is absolute, so a duplicate changes nothing. If
-- another client's lingering hold makes the lock busy, publishes a request for the lock. A duplicate request is
-- harmless.
--
-- KEYS[1]  lock       [hash]     hold -> count, with the lease as its time to live
-- ARGV[1]  hold       [string]   the field of the hold: uuid:number, or uuid:number~ for a hold that may linger
-- ARGV[2]  count      [integer]  the hold count after success, at least 1; only 1 may create the lock
-- ARGV[3]  lease      [integer]  milliseconds, at least 1; an existing lease is never shortened
-- ARGV[4]  not_after  [integer]  server time in milliseconds after which a first grant is refused; 0 sets no limit and
--                                requests the server's time; -1 sets no limit and does not read the clock
-- ARGV[5]  publish    [string]   PUBLISH or SPUBLISH; SILENT if nobody listens (spin lock)
-- ARGV[6]  channel    [channel]  the channel of lingering holders; gets the message 2 if a lingering hold makes the lock busy
-- returns  [array]    {1, left, time}  granted: the count was one less, or the lock was free
--                     {2, left, time}  held: the count already had this value (a duplicate of a successful command)
--                     {3, left, time}  past: the count is greater (a late duplicate of an older successful command)
--                     {0, left, time}  busy: another hold has the lock; left is -1 if the key has no time to live
--                     {-1, stored, time}  mismatch: the stored count is too low for this count
--                     {-2, 0, time}    lost: a count above 1 for a missing hold
--                     {-3, 0, time}    too late: the first grant arrived after not_after
--                     {-4, kind}       the key is of another kind, named by kind
-- where    left is the remaining lease in milliseconds, time the server's time in milliseconds, or 0 if not read
-- example  KEYS stock:1001  ARGV 6f0c…:7 1 30000 -1 PUBLISH redisson_lock__channel:{stock:1001}  returns {1, 30000, 0}

local lock_key = KEYS[1]
local ask = {hold = ARGV[1], count = tonumber(ARGV[2]), lease = ARGV[3], not_after = tonumber(ARGV[4])}
local publish, channel = ARGV[5], ARGV[6]

local stored = redis.pcall('HGET', lock_key, ask.hold)
if type(stored) == 'table' then
  return refuse_kind(stored, lock_key)
end

local time = 0
if ask.not_after >= 0 then
  time = server_time()
end

if stored then
  return complete(raise_hold(lock_key, ask, hold_count(stored)), time, nil)
end
local refusal = refuse_grant(lock_key, ask, time)
if refusal and refusal[1] == 0 and publish and publish ~= 'SILENT' then
  -- A healthy lock has one field, so larger hashes of applications are not read. Without permission to read or publish,
  -- the waiter waits until the hold stops lingering.
  local holder = redis.pcall('HLEN', lock_key) == 1 and redis.pcall('HKEYS', lock_key)[1]
  if holder and string.sub(holder, -1) == '~' and string.match(holder, '^[^:]*') ~= string.match(ask.hold, '^[^:]*') then
    redis.pcall(publish, channel, '2')
  end
end
return refusal or complete(grant_hold(lock_key, ask), time, nil)
