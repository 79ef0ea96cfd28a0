-- Prelude: the end of every fair script that may change the queue. Refreshes scores and expiry, removes leftovers, and
-- notifies the next waiter.

-- Cleans up the marks of an empty queue. Removes silent processes too, but not in every command.
local function sweep(fair)
  if fair.mixed or fair.walked then
    redis.call('HDEL', fair.marks, 'f', 'k', 'g')
    fair.mixed = false
  end
  withdraw_offer(fair)
  if fair.now - fair.swept < fair.window then
    return
  end
  if redis.call('HLEN', fair.marks) > 10000 then
    -- Too many marks to check. A waiter that cannot recognize a native holder only adds a subscription.
    redis.call('DEL', fair.marks)
  else
    local reply = redis.call('HGETALL', fair.marks)
    for i = 1, #reply, 2 do
      local sort = string.match(reply[i], '^([pawc]):')
      if sort and (sort ~= 'p' or fair.now - tonumber(reply[i + 1]) > fair.window) then
        redis.call('HDEL', fair.marks, reply[i])
      end
    end
  end
  mark(fair, 's', fair.now)
end

-- Removes tombstones at the tail, because the next JVM derives its deadline from the tail's score. Returns the tail, if
-- any, and its score. After 2000 tombstones the next command continues, and until then the tail is false.
local function trim_tail(fair)
  for _ = 1, 2000 do
    local tail = redis.call('LINDEX', fair.queue, -1)
    if not tail then
      return nil
    end
    local score = score_of(fair, tail)
    if not score then
      repair(fair)
    elseif is_tombstone(score) then
      redis.call('RPOP', fair.queue)
      redis.call('ZREM', fair.deadlines, tail)
    else
      return tail, score
    end
  end
  return false
end

-- Rebuilds list and scores once tombstones outnumber the waiters. In a long queue, a tombstone disappears only at
-- either end.
local function compact(fair)
  local tombstones = redis.call('ZCOUNT', fair.deadlines, '-inf', '(1000000000000')
  if is_long(fair) or tombstones <= 64 or tombstones * 2 <= redis.call('LLEN', fair.queue) then
    return
  end
  local left = {}
  for _, entry in ipairs(redis.call('ZRANGEBYSCORE', fair.deadlines, '-inf', '(1000000000000')) do
    left[entry] = true
  end
  local kept = {}
  for _, entry in ipairs(redis.call('LRANGE', fair.queue, 0, -1)) do
    if not left[entry] then
      kept[#kept + 1] = entry
    end
  end
  redis.call('ZREMRANGEBYSCORE', fair.deadlines, '-inf', '(1000000000000')
  rewrite_queue(fair, kept)
end

-- Keeps the scores of head and tail fresh in a queue without JVMs. An arriving JVM removes heads with a past score, and
-- adds its wait to the tail's score. List and scores expire together, so neither exists alone.
local function freshen(fair, tail, tail_score)
  compact(fair)
  local fresh = fair.now + fair.reach
  local head = redis.call('LINDEX', fair.queue, 0)
  local last = is_alive(fair, tail) and fresh or math.max(tail_score, fair.now)
  if head ~= tail and is_alive(fair, head) then
    redis.call('ZADD', fair.deadlines, last, tail, fresh, head)
  else
    redis.call('ZADD', fair.deadlines, last, tail)
  end
  local highest = tonumber(redis.call('ZRANGE', fair.deadlines, 0, 0, 'REV', 'WITHSCORES')[2])
  if highest == math.huge then
    -- A forged score must not keep the queue forever.
    highest = fresh
  end
  local ends, last = fair.ends or 0, math.max(highest, fair.now) + fair.idle
  if ends < last - fair.idle / 2 or ends > last then
    ends = string.format('%.0f', last)
    redis.call('PEXPIREAT', fair.queue, ends)
    redis.call('PEXPIREAT', fair.deadlines, ends)
    redis.call('PEXPIRE', fair.marks, fair.idle)
    -- Record the expiry last, so an earlier refusal leaves no false record.
    redis.call('HSET', fair.marks, 'e', ends)
  end
end

-- Returns whether a walk is due: foreign entries are new, or the last walk was long ago. The interval grows with the
-- queue, so walks use little server time. Scripts never walk a long queue, so JVMs may overtake its native waiters.
local function walk_due(fair, tail, gap, force)
  if is_long(fair) or redis.call('HLEN', fair.marks) > 40000 then
    return false
  end
  if force or not fair.walked or fair.now - fair.walked >= gap then
    return true
  end
  return is_foreign(fair, tail) and redis.call('HEXISTS', fair.marks, mark_of('w', tail)) == 0
end

local function maintain(fair, force)
  local tail, score = trim_tail(fair)
  if tail and (fair.mixed or is_foreign(fair, tail)) then
    local gap = math.max(fair.gap, math.floor(redis.call('LLEN', fair.queue) / 20))
    fair.mixed = true
    if walk_due(fair, tail, gap, force) then
      walk_queue(fair, gap)
      tail, score = trim_tail(fair)
    end
  end
  if tail == nil then
    sweep(fair)
  elseif fair.mixed then
    -- While a JVM waits, the keys follow Redisson's rules: no expiry.
    redis.call('PERSIST', fair.queue)
    redis.call('PERSIST', fair.deadlines)
    if fair.ends then
      redis.call('HDEL', fair.marks, 'e')
      fair.ends = nil
    end
  elseif tail then
    freshen(fair, tail, score)
    return
  end
  redis.call('PEXPIRE', fair.marks, fair.idle)
end

-- Notifies the head of a free lock, on the channel where it listens.
local function wake(fair)
  local head = not fair.held and redis.call('LINDEX', fair.queue, 0)
  if not head or head == fair.told then
    return
  end
  if is_foreign(fair, head) then
    redis.call(fair.publish, channel_of(fair, head), '0')
    return
  end
  if fair.offer ~= head then
    redis.call('HSET', fair.marks, 'o', head, 'ot', fair.now)
    fair.offer, fair.offered_at = head, fair.now
  end
  redis.call(fair.publish, channel_of(fair, process_of(head)), head)
end
