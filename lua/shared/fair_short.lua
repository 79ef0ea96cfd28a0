-- Prelude: the fast path of a fair acquire, with or without a fencing token.

-- Removes the hold from the queue of a free lock, if the hold is the head or the queue is empty. Returns the server's
-- time if the lock can be granted now, or nil for the full script.
local function leave_for_grant(keys, entry, plain)
  local length = plain.length
  if length == 1 then
    local swept = redis.call('HMGET', keys[4], 's', 'k')
    plain.sweeps = swept[2] or (tonumber(swept[1]) or 0) <= plain.oldest
  end
  if plain.sweeps or plain.has_missed then
    return nil
  elseif length > 0 and not redis.call('ZSCORE', keys[3], entry) then
    return nil
  end
  -- This write needs memory, so a server without memory refuses it before any change.
  if plain.living then
    redis.call('HSET', keys[4], mark_of('p', plain.living), string.format('%.0f', plain.now), 'h', entry)
  else
    redis.call('HSET', keys[4], 'h', entry)
  end
  if length < 2 then
    redis.call('PEXPIRE', keys[4], plain.idle)
  elseif keep_plain(keys, plain, plain.second, plain.tail) > 0 then
    return nil
  end
  if length > 0 then
    -- Change the list first: after a refusal, an entry without a score would count as a waiter.
    redis.call('LPOP', keys[2])
    redis.call('ZREM', keys[3], entry)
    if plain.offer then
      redis.call('HDEL', keys[4], mark_of('a', entry), mark_of('w', entry), mark_of('c', entry), 'o', 'ot')
    else
      redis.call('HDEL', keys[4], mark_of('a', entry), mark_of('w', entry), mark_of('c', entry))
    end
  elseif plain.offer then
    redis.call('HDEL', keys[4], 'o', 'ot')
  end
  return plain.now
end

-- Appends the hold to the queue. Returns whether that succeeded.
local function join_plain(keys, entry, plain)
  local time = string.format('%.0f', plain.now)
  redis.call('HSET', keys[4], mark_of('p', plain.living), time, mark_of('a', entry), time)
  if plain.length > 0 then
    if keep_plain(keys, plain, plain.head, entry) > 1 then
      redis.call('ZREM', keys[3], plain.head, entry)
      return false
    end
    redis.call('RPUSH', keys[2], entry)
    return true
  end
  -- Set each expiry at once.
  redis.call('PEXPIRE', keys[4], plain.idle)
  redis.call('ZADD', keys[3], plain.fresh, entry)
  redis.call('PEXPIRE', keys[3], plain.idle)
  redis.call('RPUSH', keys[2], entry)
  redis.call('PEXPIRE', keys[2], plain.idle)
  -- The marks may record the expiry of an earlier queue.
  plain.ends = false
  keep_plain(keys, plain, entry, entry)
  return true
end

-- Queues the hold for a busy lock. Returns the reply, or nil for the full script.
local function wait_shortly(keys, args, plain)
  local entry, length, is_held, foreign = args[1], plain.length, plain.left > -2, 0
  if is_held then
    local lock = redis.pcall('HMGET', keys[1], entry, 'mode', plain.holder or entry)
    if lock.err or lock[1] or lock[2] then
      return nil
    elseif not lock[3] then
      foreign = 1
    end
  end
  local own = length > 0 and tonumber(redis.call('ZSCORE', keys[3], entry))
  local joins = plain.living and not own
  if own and own < 1000000000000 or not own and plain.head == entry
    or length == 0 and not joins and plain.sweeps or not is_held and plain.has_missed then
    return nil
  end
  if joins then
    if not join_plain(keys, entry, plain) then
      return nil
    end
  else
    if plain.living then
      redis.call('HSET', keys[4], mark_of('p', plain.living), string.format('%.0f', plain.now))
    end
    if length == 0 then
      redis.call('PEXPIRE', keys[4], plain.idle)
    elseif keep_plain(keys, plain, plain.head, plain.tail) > 0 then
      return nil
    end
  end
  if not is_held then
    wake_plain(keys, plain, args[8], args[9])
  elseif plain.offer then
    -- The claim time restarts when the lock is next free.
    redis.call('HDEL', keys[4], 'o', 'ot')
  end
  if not own and not joins then
    return {0, math.max(plain.left, -1), plain.now}
  end
  local moved = joins and args[5] == '1' and 1 or 0
  local is_head = (length == 0 or plain.head == entry) and 1 or 0
  return {4, math.max(plain.left, -1), plain.now, moved, is_head, foreign}
end

-- Handles a first grant. Returns the reply, or nil for the full script. Returns nil and the server's time if the lock
-- can be granted now.
local function acquire_shortly(keys, args)
  if args[2] ~= '1' then
    return nil
  end
  local left, not_after = redis.call('PTTL', keys[1]), tonumber(args[6])
  local plain = read_plain(keys, args[7], args[4] == '1' and process_of(args[1]), left)
  if not plain or not_after > 0 and plain.now > not_after then
    return nil
  elseif left == -2 and (plain.length == 0 or plain.head == args[1]) then
    return nil, leave_for_grant(keys, args[1], plain)
  end
  return wait_shortly(keys, args, plain)
end
