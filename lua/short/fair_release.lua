-- Fast path of `fair/release`: ends a hold and notifies the next waiter.
--
-- Checks only the head, because acquires and heartbeats of waiters maintain the queue. The full script handles JVMs and
-- any head that is not a live native waiter.

-- Returns whether the head is a live native waiter. The mark `f` means a queue with JVMs, a low score a tombstone.
local function is_plain_head(keys, marks, head, oldest)
  if marks.err or not marks[1] or marks[2] or (tonumber(marks[5]) or 0) < oldest then
    return false
  end
  local score = redis.pcall('ZSCORE', keys[3], head)
  return type(score) == 'string' and tonumber(score) >= 1000000000000
end

-- Releases the lock to the head of its queue. Returns the reply, or nil for the full script.
local function release_to_head(keys, args, head)
  local window, claim = string.match(args[3], '^(%d+),%d+,%d+,%d+,(%d+)')
  local now, process = server_time(), process_of(head)
  local marks = redis.pcall('HMGET', keys[4], 'h', 'f', 'o', 'ot', mark_of('p', process))
  if not is_plain_head(keys, marks, head, now - window) or redis.call('ZSCORE', keys[3], args[1]) then
    -- In a damaged queue, the holder may also wait. The full script removes it.
    return nil
  elseif marks[3] ~= head then
    redis.call('HSET', keys[4], 'o', head, 'ot', string.format('%.0f', now))
  elseif now - (tonumber(marks[4]) or 0) > tonumber(claim) then
    -- The head was notified before and did not acquire the lock.
    return nil
  end
  local publish, channel = args[4], args[5]
  redis.call(publish, channel_of({channel = channel}, process), head)
  -- Free the lock last: if the server refuses to publish or to change the queue, the hold is unchanged.
  redis.call('DEL', keys[1])
  return 1
end

-- Releases a lock without waiters. Returns the reply, or nil for the full script.
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
