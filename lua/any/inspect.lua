-- Returns the kind of lock under a name, its holds and its waiters. Read-only. Reads a bounded part of the data, which
-- takes a fraction of a millisecond.
--
-- KEYS[1]  lock       [hash]     the key under the name, of any type
-- KEYS[2]  queue      [list]     of a fair lock: waiting holds, the next holder first
-- KEYS[3]  deadlines  [zset]     of a fair lock: hold -> server time in milliseconds
-- KEYS[4]  marks      [hash]     of a fair lock: heartbeats and arrivals
-- KEYS[5]  token      [string]   of a fenced lock: the last fencing token
-- KEYS[6]  readers    [zset]     of a read-write lock: native readers -> deadline, in the server's milliseconds
-- KEYS[7]  permits    [zset]     of a leased semaphore: id of a held permit -> deadline, in milliseconds since the epoch
-- ARGV[1]  most       [integer]  the maximum number of holds, and of waiters, in the reply; at least 1
-- ARGV[2]  window     [integer]  milliseconds after its last heartbeat during which a process counts as alive
-- ARGV[3]  skew       [integer]  the maximum clock error of a JVM in milliseconds
-- ARGV[4]  question   [string]   NUMSUB or SHARDNUMSUB: the PUBSUB subcommand that counts a channel's listeners
-- ARGV[5]  exclusive  [channel]  the channel of a lock under this name
-- ARGV[6]  shared     [channel]  the channel of a read-write lock under this name
-- ARGV[7]  counter    [channel]  the channel of a semaphore under this name
-- ARGV[8]  latch      [channel]  the channel of a latch under this name
-- also     [string]  the hold keys of a JVM's readers: only the fields of the lock name these readers, so no caller can declare the keys
-- returns  [array]  {0, token}   the name is free; token is the last fencing token, -1 without one
--                   {1, sort, left, held, queued, listeners, token, available, listed, hold, count, left, ..., waiter, age, alive, ...}
--                                a lock of this kind; then three values for each listed hold, and three for each waiter
--                   {-4, kind}   not a lock: the key is of another kind, named by kind
-- where    sort names the kind; left is the time to live in milliseconds, -1 without one, -2 for a missing key; held is the number
--          of holds, queued the number of waiters; listeners is the number of subscribers of the channel, -1 if
--          unknown; available is the value of a counter; age is the waiting time in milliseconds, -1 if unknown,
--          as for a JVM; alive is 1 if its process sent a heartbeat within the window, or a JVM's deadline has not passed
-- example  KEYS s redisson_lock_queue:{s} redisson_lock_timeout:{s} leasehold:1:fair:{s} redisson_lock_token:{s} leasehold:1:rw_readers:{s} {s}:timeout  ARGV 16 2000 1000 NUMSUB redisson_lock__channel:{s} redisson_rwlock:{s} redisson_sc:{s} redisson_countdownlatch__channel__{s}  returns {1, "fair lock", 20000, 1, 1, -1, -1, 0, 1, "6f0c…:7", "2", 20000, "6f0c…:8", -1, 1}

local lock_key, queue_key, deadlines_key, marks_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token_key, readers_key, permits_key = KEYS[5], KEYS[6], KEYS[7]
local most, window, skew = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local question, exclusive, shared, counter, latch = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]

-- Returns the integer reply of a command, or 0 for a key of another type.
local function number_in(answer)
  return type(answer) == 'number' and answer or 0
end

-- Returns the number of subscribers of a channel, or -1 if the server refuses the command.
local function listeners_of(channel)
  local answer = redis.pcall('PUBSUB', question, channel)
  return answer.err and -1 or tonumber(answer[2])
end

-- Returns the number in a companion key, or nil.
local function told(answer)
  return type(answer) == 'string' and tonumber(answer) or nil
end

local stands, left = redis.call('TYPE', lock_key).ok, redis.call('PTTL', lock_key)
local sort, held, listeners, available = nil, 0, -1, 0
local reply = {}

local function add(first, second, third)
  reply[#reply + 1] = first
  reply[#reply + 1] = second
  reply[#reply + 1] = third
end

local function listed()
  return #reply / 3
end

local function add_waiters()
  local time = server_time()
  local already = listed()
  -- The list also contains tombstones, so read twice as many entries.
  for _, entry in ipairs(redis.pcall('LRANGE', queue_key, 0, 2 * most - 1)) do
    local score = told(redis.pcall('ZSCORE', deadlines_key, entry)) or time
    if score >= 1000000000000 and listed() < already + most then
      local beat = told(redis.pcall('HGET', marks_key, mark_of('p', process_of(entry))))
      local arrived = told(redis.pcall('HGET', marks_key, mark_of('a', entry)))
      local lives = beat and time - beat <= window or not beat and score > time - skew
      add(entry, arrived and time - arrived or -1, lives and 1 or 0)
    end
  end
end

local function with_head(token, queued, holds)
  local whole_reply = {1, sort, left, held, queued, listeners, token, available, holds}
  for _, word in ipairs(reply) do
    whole_reply[#whole_reply + 1] = word
  end
  return whole_reply
end

if stands == 'string' then
  if redis.call('STRLEN', lock_key) > 256 then
    return {-4, 'string'}
  end
  local value = short_text(lock_key)
  if not whole(value) then
    if left < 0 then
      return {-4, 'string'}
    end
    sort, held = 'simple lock', 1
    add(value, '1', left)
    return with_head(-1, 0, 1)
  end
  available = whole(value)
  local permits = number_in(redis.pcall('ZCARD', permits_key))
  listeners = listeners_of(counter)
  if permits == 0 then
    sort = 'counter'
    if listeners >= 0 then
      listeners = listeners + listeners_of(latch)
    end
    return with_head(-1, 0, 0)
  end
  sort = 'leased semaphore'
  local time = server_time()
  local expired = redis.call('ZCOUNT', permits_key, '-inf', time)
  held, available = permits - expired, available + expired
  local list = redis.call('ZRANGE', permits_key, expired, expired + most - 1, 'WITHSCORES')
  for i = 1, #list, 2 do
    local deadline = tonumber(list[i + 1])
    add(list[i], '1', deadline < 922337203685477 and math.max(0, deadline - time) or -1)
  end
  return with_head(-1, 0, listed())
end

local waiting = number_in(redis.pcall('LLEN', queue_key))
local token = short_text(token_key)
if type(token) ~= 'string' then
  token = -1
end
if stands == 'none' then
  if waiting == 0 then
    return {0, token}
  end
elseif stands ~= 'hash' then
  return {-4, stands}
else
  held = redis.call('HLEN', lock_key)
  if redis.call('HEXISTS', lock_key, 'mode') == 1 then
    local mode = redis.call('HSTRLEN', lock_key, 'mode') < 6 and redis.call('HGET', lock_key, 'mode')
    if mode ~= 'read' and mode ~= 'write' then
      return {-4, 'hash'}
    end
    local time = server_time()
    sort, held, listeners = 'read-write lock', held - 1, listeners_of(shared)
    -- The script blocks all other clients, so bound the number of readers and any forged count.
    local fields, looks = held <= 1000 and redis.call('HKEYS', lock_key) or {}, 4 * most
    for _, field in ipairs(fields) do
      if looks > 0 and field ~= 'mode' and listed() < most and redis.call('HSTRLEN', lock_key, field) <= 16 then
        local count, rest = redis.call('HGET', lock_key, field), left
        local cost = math.max(1, hold_count(count))
        if string.sub(field, -6) ~= ':write' and cost <= looks then
          rest = hold_left(lock_key, readers_key, field, time)
          looks = looks - cost
        else
          looks = looks - 1
        end
        -- An expired reader does not count.
        if rest > 0 or rest == -1 then
          add(field, count, rest)
        else
          held = held - 1
        end
      end
    end
    if held == 0 then
      return {0, -1}
    end
    return with_head(-1, 0, listed())
  end
  if held > 8 then
    return {-4, 'hash'}
  end
  for _, field in ipairs(redis.call('HKEYS', lock_key)) do
    if string.len(field) > 256 or redis.call('HSTRLEN', lock_key, field) > 64 then
      return {-4, 'hash'}
    end
    add(field, redis.call('HGET', lock_key, field), left)
  end
end

local holds = listed()
local is_fair = waiting > 0 or number_in(redis.pcall('HLEN', marks_key)) > 0
if token ~= -1 then
  sort = is_fair and 'fenced fair lock' or 'fenced lock'
else
  sort = is_fair and 'fair lock' or 'lock'
end
if is_fair then
  -- Tombstones have a score below any deadline.
  waiting = math.max(0, waiting - number_in(redis.pcall('ZCOUNT', deadlines_key, '-inf', 999999999999)))
  add_waiters()
else
  listeners = listeners_of(exclusive)
end
return with_head(token, waiting, holds)
