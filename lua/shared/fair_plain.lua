-- Prelude: a fair queue as it mostly is, read and kept by few commands. The short ways of the fair scripts use it.
--
-- A queue is plain if the marks tell of no JVM, if list and scores have as many entries, if first and last entry are of living processes
-- of ours and no tombstones, if few entries are tombstones, and if no score is later than that of a waiter that comes now. An empty queue
-- is plain too.
--
-- Another queue is left to the long way, which has the rules for all of them; so a short way ends before its first write if a queue is not
-- plain. `keys` are the KEYS of the script. A server makes every function of these files, and every table, anew for each call, so there are
-- few of them.

-- Whether tombstones are in the way of a queue: there are so many that they are to be cleared away, or one is the first, the second or the
-- last entry. So is a score that is later than that of a waiter that comes now.
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

-- Reads the queue and its marks. The answer is nil if the queue is not plain, or if a key is of another kind. `living` is the process
-- that sends the command, if the command is a sign of its life. `left` is what is left of the lease; if the lock is free, the second
-- entry may be the head from now on, and is looked at too.
local function read_plain(keys, settings, living, left)
  local length = redis.pcall('LLEN', keys[2])
  -- An error equals no other value, so that this finds errors too.
  if length ~= redis.pcall('ZCARD', keys[3]) then
    return nil
  end
  local window, skew, claim, idle = string.match(settings, '^(%d+),%d+,(%d+),%d+,(%d+),.*,(%d+)$')
  local now = server_time()
  local oldest, latest = now - window, now + window + skew
  local fresh = string.format('%.0f', latest)
  -- Sixteen fields, all of them here, because a table that grows is made anew.
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
  -- A process that is known to be alive, or that has been asked for, is not looked up again.
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
  -- The head has been offered the free lock for long, and did not take it.
  plain.has_missed = marks[3] == head and now - (tonumber(marks[4]) or 0) > tonumber(claim)
  return plain
end

-- Makes the scores of head and tail fresh, and sees that the keys last. The answer is how many of the two had no score: list and
-- scores do not name the same entries then.
local function keep_plain(keys, plain, head, tail)
  local unscored
  if head == tail then
    unscored = redis.call('ZADD', keys[3], plain.fresh, tail)
  else
    unscored = redis.call('ZADD', keys[3], plain.fresh, tail, plain.fresh, head)
  end
  local ends, last = tonumber(plain.ends) or 0, plain.latest + plain.idle
  if ends < last - plain.idle / 2 or ends > last then
    -- List and scores end together, and are extended once in half of the time that they are to last. A later end is that of a clock that
    -- was put back.
    ends = string.format('%.0f', last)
    redis.call('PEXPIREAT', keys[2], ends)
    redis.call('PEXPIREAT', keys[3], ends)
    redis.call('PEXPIRE', keys[4], plain.idle)
    -- At last, so that no refusal before it leaves a note of an end that is not there.
    redis.call('HSET', keys[4], 'e', ends)
  end
  return unscored
end

-- Tells the head of a free lock that it is its turn.
local function wake_plain(keys, plain, publish, channel)
  if plain.offer ~= plain.head then
    redis.call('HSET', keys[4], 'o', plain.head, 'ot', string.format('%.0f', plain.now))
  end
  redis.call(publish, channel_of({channel = channel}, process_of(plain.head)), plain.head)
end
