-- Returns the holder of the lock and its waiters, in order. Read-only.
--
-- KEYS[1]  lock       [hash]  hold -> count, with the lease as its time to live
-- KEYS[2]  queue      [list]  waiting holds, the next holder first
-- KEYS[3]  deadlines  [zset]  hold -> server time in milliseconds, as JVMs need it
-- KEYS[4]  marks      [hash]  heartbeats, arrivals and observations of JVMs
-- ARGV[1]  settings   [string]  eight durations in milliseconds, separated by commas: window, beat, skew, cap, claim, grace, walk and idle
-- returns  [array]  {0, waiter, age, alive, ...}  the lock is free; then three values for each waiter
--                   {1, left, hold, count, waiter, age, alive, ...}  the lock is held; left is the remaining lease in milliseconds,
--                                -1 if the key has no time to live; then three values for each waiter, at most 1000
--                   {-4, kind}   a key is of another kind, named by kind
-- where    waiter is the field of a waiting hold; age is its waiting time in milliseconds, -1 if unknown,
--          as for a JVM; alive is 1 if its process sent a heartbeat within the window, or a JVM's deadline has not passed
-- example  KEYS s redisson_lock_queue:{s} redisson_lock_timeout:{s} leasehold:1:fair:{s}  ARGV 2000,500,1000,300000,2000,2000,250,600000  returns {1, 20000, "6f0c…:7", "2", "6f0c…:8", -1, 1}

local fair = {lock = KEYS[1], queue = KEYS[2], deadlines = KEYS[3], marks = KEYS[4], now = server_time()}

local holds = redis.pcall('HLEN', fair.lock)
if type(holds) == 'table' then
  return refuse_kind(holds, fair.lock)
elseif redis.call('HEXISTS', fair.lock, 'mode') == 1 then
  return {-4, 'read-write lock'}
elseif holds > 8 then
  return {-4, 'hash'}
end
local refusal = open_fair(fair, ARGV[1])
if refusal then
  return refusal
end

local reply = {0}
if holds > 0 then
  local fields = redis.call('HGETALL', fair.lock)
  reply = {1, lease_left(fair), fields[1], fields[2]}
end
for _, entry in ipairs(redis.call('LRANGE', fair.queue, 0, 999)) do
  local score = score_of(fair, entry) or fair.now
  if not is_tombstone(score) then
    local arrived = tonumber(redis.call('HGET', fair.marks, mark_of('a', entry)) or nil)
    local lives = is_alive(fair, entry) or (is_foreign(fair, entry) and score > fair.now - fair.skew)
    reply[#reply + 1] = entry
    reply[#reply + 1] = arrived and fair.now - arrived or -1
    reply[#reply + 1] = lives and 1 or 0
  end
end
return reply
