-- Lowers the hold count of a hold. Or ends the hold, removes it from the queue, and notifies the next waiter. The count
-- is absolute, so a copy changes nothing.
--
-- KEYS[1]  lock       [hash]     hold -> count, with the lease as its time to live
-- KEYS[2]  queue      [list]     waiting holds, the next holder first
-- KEYS[3]  deadlines  [zset]     hold -> server time in milliseconds, as JVMs need it
-- KEYS[4]  marks      [hash]     heartbeats, arrivals and observations of JVMs
-- ARGV[1]  hold       [string]   the field of the hold: uuid:number
-- ARGV[2]  count      [integer]  the hold count to keep; 0 always ends the hold and removes it from the queue
-- ARGV[3]  settings   [string]   eight durations in milliseconds, separated by commas: window, beat, skew, cap, claim, grace, walk and idle
-- ARGV[4]  publish    [string]   PUBLISH or SPUBLISH
-- ARGV[5]  channel    [channel]  the prefix of the waiters' channels
-- returns  [integer]  1   released: the hold has ended, and the next waiter was notified
--                     2   lowered: the count is now as requested; the lease is unchanged
--                     3   same: the count already had this value (a duplicate of a successful command)
--                     4   below: the count was already lower (a late duplicate of an older command)
--                     0   absent: the lock is free; the next waiter was notified, in case the lease had expired
--                     -1  other: another hold has the lock
--                     -4  kind: a key is of another kind
-- where    a hold that gives up its place returns 0 or -1, because it was never granted
-- example  KEYS s redisson_lock_queue:{s} redisson_lock_timeout:{s} leasehold:1:fair:{s}  ARGV 6f0c…:7 0 2000,500,1000,300000,2000,2000,250,600000 PUBLISH redisson_lock__channel:{s}  returns 1

local fair = {
  lock = KEYS[1], queue = KEYS[2], deadlines = KEYS[3], marks = KEYS[4],
  publish = ARGV[4], channel = ARGV[5], now = server_time(),
}
local hold, count = ARGV[1], tonumber(ARGV[2])

local stored = redis.pcall('HGET', fair.lock, hold)
local is_hash = type(stored) ~= 'table'
if not is_hash then
  local refusal = refuse_kind(stored, fair.lock)
  if refusal.err then
    return refusal
  end
  stored = false
end

if stored and count > 0 then
  stored = hold_count(stored)
  if stored > count then
    redis.call('HSET', fair.lock, hold, count)
    return 2
  elseif stored == count then
    return 3
  end
  return 4
end

local refusal = open_fair(fair, ARGV[3])
if refusal then
  if refusal.err then
    return refusal
  end
  return -4
end
if stored then
  -- Update the queue as for a free lock, and free the lock last. If the server refuses an earlier command, the hold is
  -- unchanged.
  fair.held, fair.left = false, -2
end
local left = count == 0 and leave_queue(fair, hold)
if left or not fair.held then
  prune(fair)
  maintain(fair, false)
  wake(fair)
end
if stored then
  redis.call('DEL', fair.lock)
  return 1
elseif not is_hash then
  return -4
elseif fair.held then
  return -1
end
return 0
