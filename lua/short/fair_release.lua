-- Short way of `fair/release`: it ends a hold, and tells the next one of its turn.
--
-- It leaves the upkeep of the queue to the acquires and the heartbeats of those that wait, and looks at the head alone. The long way finds
-- out what to do if the head is not a living waiter of ours, or if JVMs wait.

-- Whether the head is a waiter of ours that lives. A queue with JVMs shows by the mark `f`, and a tombstone by its score.
local function is_plain_head(keys, marks, head, oldest)
  if marks.err or not marks[1] or marks[2] or (tonumber(marks[5]) or 0) < oldest then
    return false
  end
  local score = redis.pcall('ZSCORE', keys[3], head)
  return type(score) == 'string' and tonumber(score) >= 1000000000000
end

-- Frees the lock for the head of its queue. The answer is the reply, or nil if the long way has to be taken.
local function release_to_head(keys, args, head)
  local window, claim = string.match(args[3], '^(%d+),%d+,%d+,%d+,(%d+)')
  local now, process = server_time(), process_of(head)
  local marks = redis.pcall('HMGET', keys[4], 'h', 'f', 'o', 'ot', mark_of('p', process))
  if not is_plain_head(keys, marks, head, now - window) or redis.call('ZSCORE', keys[3], args[1]) then
    -- A hold that has a place too, in a queue that was damaged, gives it up the long way.
    return nil
  elseif marks[3] ~= head then
    redis.call('HSET', keys[4], 'o', head, 'ot', string.format('%.0f', now))
  elseif now - (tonumber(marks[4]) or 0) > tonumber(claim) then
    -- It was offered the lock before, and did not take it.
    return nil
  end
  local publish, channel = args[4], args[5]
  redis.call(publish, channel_of({channel = channel}, process), head)
  -- The lock is freed last: a user who may not publish, or not change the queue, has released nothing when the server says so.
  redis.call('DEL', keys[1])
  return 1
end

-- Frees a lock for which nobody waits. The answer is the reply, or nil if the long way has to be taken.
local function release_to_nobody(keys, args)
  local plain = read_plain(keys, args[3], nil, -1)
  if not plain or plain.length > 0 or plain.sweeps then
    return nil
  elseif plain.offer then
    redis.call('HDEL', keys[4], 'o', 'ot')
  end
  redis.call('PEXPIRE', keys[4], plain.idle)
  redis.call('DEL', keys[1])
  return 1
end

do
  local stored = ARGV[2] == '0' and redis.pcall('HGET', KEYS[1], ARGV[1])
  if type(stored) == 'string' then
    local head = redis.pcall('LINDEX', KEYS[2], '0')
    local reply
    if type(head) == 'string' then
      reply = release_to_head(KEYS, ARGV, head)
    elseif not head then
      reply = release_to_nobody(KEYS, ARGV)
    end
    if reply then
      return reply
    end
  end
end
