-- Prelude: reads and maintains a plain fair queue with few commands, for the fast paths in `short/`.
--
-- A queue is plain if the marks record no JVM and list and scores have equal length. Its first and last entries are
-- waiters of live native processes. It has few tombstones, and no score is later than that of a new waiter. An empty
-- queue is plain too.
--
-- The full scripts handle every other queue. So a fast path returns before its first write if the queue is not plain.
-- `keys` are the KEYS of the script. A server rebuilds all functions and tables of these files for each call, so the
-- files define only a few.

-- Returns whether tombstones or scores make the queue complex. Either the queue has too many tombstones, or a tombstone
-- is its first, second or last entry. Or a score is later than the score of a new waiter.
local function has_others(keys, plain)
  local waiting = redis.call('ZCOUNT', keys[3], '1000000000000', plain.fresh)
  if waiting == plain.length then
    return false
  end
  local tombstones = redis.call('ZCOUNT', keys[3], '-inf', '(1000000000000')
  if tombstones + waiting < plain.length then
    return true
  end
  for _, entry in ipairs({plain.head, plain.second, plain.tail}) do
    if (tonumber(redis.call('ZSCORE', keys[3], entry)) or 0) < 1000000000000 then
      return true
    end
  end
  return tombstones > 64 and tombstones * 2 >= plain.length
end

-- Reads the queue and its marks. Returns nil if the queue is not plain or a key is of another kind. `living` is the
-- process that sends the command, if the command counts as its heartbeat. `left` is the remaining lease. If the lock is
-- free, also checks the second entry, which may become the head.
local function read_plain(keys, settings, living, left)
  local length = redis.pcall('LLEN', keys[2])
  -- An error is a table, which equals no other value. So this comparison also detects errors.
  if length ~= redis.pcall('ZCARD', keys[3]) then
    return nil
  end
  local window, skew, claim, idle = string.match(settings, '^(%d+),%d+,(%d+),%d+,(%d+),.*,(%d+)$')
  local now = server_time()
  local oldest, latest = now - window, now + window + skew
  local fresh = string.format('%.0f', latest)
  -- Set all sixteen fields at once, because Lua rebuilds a growing table.
  local plain = {
    length = length, head = false, second = false, tail = false, offer = false, has_missed = false, holder = false, sweeps = false,
    ends = false, living = living, left = left, now = now, oldest = oldest, idle = idle, latest = latest, fresh = fresh,
  }
  if length == 0 then
    local marks = redis.pcall('HMGET', keys[4], 'h', 'f', 'o', 's', 'k')
    if marks.err or marks[2] then
      return nil
    end
    plain.holder, plain.offer, plain.sweeps = marks[1], marks[3], marks[5] or (tonumber(marks[4]) or 0) <= oldest
    return plain
  end

  local head, second
  if length > 1 and left == -2 then
    local first = redis.call('LRANGE', keys[2], '0', '1')
    head, second = first[1], first[2]
  else
    head = redis.call('LINDEX', keys[2], '0')
    second = head
  end
  local tail = length > 1 and redis.call('LINDEX', keys[2], '-1') or head
  plain.head, plain.second, plain.tail = head, second, tail
  -- Skips processes that are alive or already in the request.
  local process, next_process, last = process_of(head), process_of(second), process_of(tail)
  local knows_first = process == living
  local knows_second, knows_last = next_process == living or next_process == process, last == living or last == process
  local marks
  if knows_first and knows_second and knows_last then
    marks = redis.pcall('HMGET', keys[4], 'h', 'f', 'o', 'ot', 'e')
  elseif knows_second and knows_last then
    marks = redis.pcall('HMGET', keys[4], 'h', 'f', 'o', 'ot', 'e', mark_of('p', process))
  else
    marks = redis.pcall('HMGET', keys[4], 'h', 'f', 'o', 'ot', 'e',
      mark_of('p', process), mark_of('p', next_process), mark_of('p', last))
  end
  if marks.err or not marks[1] or marks[2]
    or not knows_first and (tonumber(marks[6]) or 0) < oldest
    or not knows_second and (tonumber(marks[7]) or 0) < oldest
    or not knows_last and (tonumber(marks[8]) or 0) < oldest
    or has_others(keys, plain) then
    return nil
  end
  plain.holder, plain.offer, plain.ends = marks[1], marks[3], marks[5]
  -- The head did not take the free lock within the claim time.
  plain.has_missed = marks[3] == head and now - (tonumber(marks[4]) or 0) > tonumber(claim)
  return plain
end

-- Refreshes the scores of head and tail, and the expiry of the keys. Returns the number of missing scores. With a
-- missing score, list and scores name different entries.
local function keep_plain(keys, plain, head, tail)
  local unscored
  if head == tail then
    unscored = redis.call('ZADD', keys[3], plain.fresh, tail)
  else
    unscored = redis.call('ZADD', keys[3], plain.fresh, tail, plain.fresh, head)
  end
  local ends, last = tonumber(plain.ends) or 0, plain.latest + plain.idle
  if ends < last - plain.idle / 2 or ends > last then
    -- List and scores expire together. Extend them once in each half of their lifetime. A later expiry means that the
    -- clock was set back.
    ends = string.format('%.0f', last)
    redis.call('PEXPIREAT', keys[2], ends)
    redis.call('PEXPIREAT', keys[3], ends)
    redis.call('PEXPIRE', keys[4], plain.idle)
    -- Record the expiry last, so an earlier refusal leaves no false record.
    redis.call('HSET', keys[4], 'e', ends)
  end
  return unscored
end

-- Notifies the head of a free lock.
local function wake_plain(keys, plain, publish, channel)
  if plain.offer ~= plain.head then
    redis.call('HSET', keys[4], 'o', plain.head, 'ot', string.format('%.0f', plain.now))
  end
  redis.call(publish, channel_of({channel = channel}, process_of(plain.head)), plain.head)
end
