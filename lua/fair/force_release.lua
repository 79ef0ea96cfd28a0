-- Ends the hold of a named holder for any caller, and notifies the next waiter. The command names the holder, so a late
-- duplicate cannot end a later hold. A damaged lock with two fields keeps the other field.
--
-- KEYS[1]  lock       [hash]     hold -> count, with the lease as its time to live
-- KEYS[2]  queue      [list]     waiting holds, the next holder first
-- KEYS[3]  deadlines  [zset]     hold -> server time in milliseconds, as JVMs need it
-- KEYS[4]  marks      [hash]     heartbeats, arrivals and observations of JVMs
-- ARGV[1]  holder     [string]   the field of the hold to end: uuid:number, or a JVM's uuid:thread
-- ARGV[2]  settings   [string]   eight durations in milliseconds, separated by commas: window, beat, skew, cap, claim, grace, walk and idle
-- ARGV[3]  publish    [string]   PUBLISH or SPUBLISH
-- ARGV[4]  channel    [channel]  the prefix of the waiters' channels
-- returns  [integer]  1   released: the hold has ended, and the next waiter was notified
--                     0   absent: the lock is free; the next waiter was notified, in case the lease had expired
--                     -1  other: another hold has the lock
--                     -4  kind: a key is of another kind
-- example  KEYS s redisson_lock_queue:{s} redisson_lock_timeout:{s} leasehold:1:fair:{s}  ARGV 6f0c…:7 2000,500,1000,300000,2000,2000,250,600000 PUBLISH redisson_lock__channel:{s}  returns 1

local fair = {
  lock = KEYS[1], queue = KEYS[2], deadlines = KEYS[3], marks = KEYS[4],
  publish = ARGV[3], channel = ARGV[4], now = server_time(),
}
local holder = ARGV[1]

local present = redis.pcall('HEXISTS', fair.lock, holder)
local refusal
if type(present) == 'table' then
  refusal = refuse_kind(present, fair.lock)
else
  refusal = open_fair(fair, ARGV[2])
end
if refusal then
  if refusal.err then
    return refusal
  end
  return -4
end
if fair.held and redis.call('HEXISTS', fair.lock, 'mode') == 1 then
  return -4
elseif fair.held and present == 0 then
  return -1
end

-- Update the queue as for a free lock, and free the lock last. If the server refuses an earlier command, the hold is
-- unchanged.
fair.held, fair.left = false, -2
prune(fair)
maintain(fair, false)
wake(fair)
if present == 0 then
  return 0
end
redis.call('HDEL', fair.lock, holder)
return 1
