-- Grants the lock with a fencing token, raises the hold count of its hold, or queues the hold. The count is absolute,
-- and a hold queues once and keeps its token, so a duplicate changes nothing.
--
-- KEYS[1]  lock       [hash]     hold -> count, with the lease as its time to live
-- KEYS[2]  queue      [list]     waiting holds, the next holder first
-- KEYS[3]  deadlines  [zset]     hold -> server time in milliseconds, as JVMs need it
-- KEYS[4]  marks      [hash]     heartbeats, arrivals and observations of JVMs
-- KEYS[5]  token      [string]   the last fencing token; it has no time to live and is never deleted
-- ARGV[1]  hold       [string]   the field of the hold: uuid:number
-- ARGV[2]  count      [integer]  the hold count after success, at least 1; only 1 may create the lock
-- ARGV[3]  lease      [integer]  milliseconds, at least 1; an existing lease is never shortened
-- ARGV[4]  waits      [integer]  1 to queue the hold if the lock cannot be granted, 0 to write nothing
-- ARGV[5]  placed     [integer]  1 if the hold had a place before; then a new place means that the old place was lost
-- ARGV[6]  not_after  [integer]  server time in milliseconds after which a first grant and a new place are refused; no
--                                limit if not positive
-- ARGV[7]  settings   [string]   eight durations in milliseconds, separated by commas: window, beat, skew, cap, claim, grace, walk and idle
-- ARGV[8]  publish    [string]   PUBLISH or SPUBLISH
-- ARGV[9]  channel    [channel]  the prefix of the waiters' channels
-- returns  [array]    {1, left, time, token}  granted: the count was one less, or the lock was free at this hold's turn
--                     {2, left, time, token}  held: the count already had this value (a duplicate of a successful command)
--                     {3, left, time, token}  past: the count is greater (a late duplicate of an older successful command)
--                     {4, left, time, moved, head, foreign}  placed: the hold has a place in the queue; moved is 1 if it
--                                      lost an earlier place, head is 1 if it is next, foreign is 1 if JVMs wait
--                                      or hold the lock
--                     {0, left, time}  busy: not this hold's turn; the hold is not queued
--                     {-1, stored, time}  mismatch: the stored count is too low for this count
--                     {-2, 0, time}    lost: a count above 1 for a missing hold
--                     {-3, 0, time}    too late: a first grant or a new place after not_after
--                     {-4, kind}       a key is of another kind, named by kind
--                     {-7, 0, time}    withdrawn: the hold gave up its place and cannot queue again
-- where    left is the holder's remaining lease in milliseconds, -1 without one; time is the server's in milliseconds;
--          token is the hold's fencing token in decimal, greater than the token of every earlier hold
-- example  KEYS s redisson_lock_queue:{s} redisson_lock_timeout:{s} leasehold:1:fair:{s} redisson_lock_token:{s}  ARGV 6f0c…:7 1 30000 1 0 -1 2000,500,1000,300000,2000,2000,250,600000 PUBLISH redisson_lock__channel:{s}  returns {1, 30000, 1800000000000, "1800000000000000"}

local fair = {
  lock = KEYS[1], queue = KEYS[2], deadlines = KEYS[3], marks = KEYS[4],
  publish = ARGV[8], channel = ARGV[9], now = server_time(),
}
local ask = {
  hold = ARGV[1], count = tonumber(ARGV[2]), lease = tonumber(ARGV[3]),
  waits = ARGV[4] == '1', placed = ARGV[5] == '1', not_after = tonumber(ARGV[6]),
}

local token = KEYS[5]

-- Check the token key before any write, so a key of another kind costs no place in the queue.
local issued = short_text(token)
if type(issued) == 'table' then
  return refuse_kind(issued, token)
end
local exhausted = refuse_token(issued)
if exhausted then
  return exhausted
end
local stored = redis.pcall('HGET', fair.lock, ask.hold)
if type(stored) == 'table' then
  return refuse_kind(stored, fair.lock)
elseif stored then
  local same = same_token(token, issued)
  return complete(raise_hold(fair.lock, ask, hold_count(stored)), fair.now, same)
end
local refusal = acquire_place(fair, ask, ARGV[7])
if refusal then
  return refusal
end
-- Write the token first: a token without a grant only leaves a gap.
local new = next_token(token, issued)
return complete(grant_hold(fair.lock, ask), fair.now, new)
