-- Records the heartbeat of a process for all its waiters, and returns whether one of these waiters is next. A process
-- sends one heartbeat per lock and interval, for any number of waiters. A duplicate changes nothing.
--
-- KEYS[1]  lock       [hash]     hold -> count, with the lease as its time to live
-- KEYS[2]  queue      [list]     waiting holds, the next holder first
-- KEYS[3]  deadlines  [zset]     hold -> server time in milliseconds, as JVMs need it
-- KEYS[4]  marks      [hash]     heartbeats, arrivals and observations of JVMs
-- ARGV[1]  client     [string]   the process: the uuid prefix of its holds
-- ARGV[2]  front      [string]   the longest-waiting hold of this process, or an empty string
-- ARGV[3]  settings   [string]   eight durations in milliseconds, separated by commas: window, beat, skew, cap, claim, grace, walk and idle
-- ARGV[4]  publish    [string]   PUBLISH or SPUBLISH
-- ARGV[5]  channel    [channel]  the prefix of the waiters' channels
-- returns  [array]    {1, left, time, head, foreign}  calm: the front is queued or holds the lock
--                     {2, left, time, head, foreign, hold}  yours: the lock is free, and hold, of this process, is next
--                     {0, left, time, head, foreign}  gone: the front is no longer queued
--                     {-4, kind}  a key is of another kind, named by kind
-- where    left is the holder's remaining lease in milliseconds, -1 without one; time is the server's in milliseconds;
--          head is 1 if a hold of this process is next; foreign is 1 if JVMs wait or hold the lock
-- example  KEYS s redisson_lock_queue:{s} redisson_lock_timeout:{s} leasehold:1:fair:{s}  ARGV 6f0c… 6f0c…:7 2000,500,1000,300000,2000,2000,250,600000 PUBLISH redisson_lock__channel:{s}  returns {0, -1, 1800000000000, 0, 0}

local fair = {
  lock = KEYS[1], queue = KEYS[2], deadlines = KEYS[3], marks = KEYS[4],
  publish = ARGV[4], channel = ARGV[5], now = server_time(),
}
local client, front = ARGV[1], ARGV[2]

local holds = redis.pcall('HEXISTS', fair.lock, front)
if type(holds) == 'table' then
  return refuse_kind(holds, fair.lock)
end
local refusal = open_fair(fair, ARGV[3])
if refusal then
  return refusal
end

mark(fair, mark_of('p', client), fair.now)
fair.beats[client] = fair.now
local head = prune(fair)
maintain(fair, false)

local is_next = head and process_of(head) == client
local next_bit = is_next and 1 or 0
if is_next and not fair.held then
  if fair.offer ~= head then
    -- Start the claim time.
    redis.call('HSET', fair.marks, 'o', head, 'ot', fair.now)
  end
  return {2, lease_left(fair), fair.now, next_bit, foreign_bit(fair), head}
end
-- This message tells a waiting JVM that a lease has expired.
wake(fair)
if front ~= '' and holds == 0 and not score_of(fair, front) then
  return {0, lease_left(fair), fair.now, next_bit, foreign_bit(fair)}
end
return {1, lease_left(fair), fair.now, next_bit, foreign_bit(fair)}
