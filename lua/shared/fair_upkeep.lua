-- Prelude: the end of every fair script that may have changed the queue: scores, left-overs, expiry, and the message to
-- whoever is next.

-- Nobody waits: what is left to tell of waiters goes. The processes that are silent go too, but not at each command.
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
    -- So many are not looked at one by one. A holder that is not known for one of ours costs a waiter a subscription.
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

-- Removes tombstones at the tail, because the next JVM would base its own deadline on the tail's score. Returns the
-- tail, if any, and its score. After two thousand tombstones the next command continues; until then the tail is false.
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

-- Rebuilds list and scores without tombstones, once they outnumber the waiters. A long queue loses its tombstones when
-- they reach its ends.
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

-- A queue of ours alone: a JVM that arrives takes heads off whose score has passed, and adds its wait to the tail's score,
-- so these two are kept fresh. List and scores end together, so that never one is there without the other.
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
    -- Written by hand: it must not keep the queue for ever.
    highest = fresh
  end
  local ends, last = fair.ends or 0, math.max(highest, fair.now) + fair.idle
  if ends < last - fair.idle / 2 or ends > last then
    ends = string.format('%.0f', last)
    redis.call('PEXPIREAT', fair.queue, ends)
    redis.call('PEXPIREAT', fair.deadlines, ends)
    redis.call('PEXPIRE', fair.marks, fair.idle)
    -- At last, so that no refusal before it leaves a note of an end that is not there.
    redis.call('HSET', fair.marks, 'e', ends)
  end
end

-- Whether a walk is due: foreign entries were not known of before, or the last walk is long ago. The gap grows with the
-- queue, so that walks never take more than a small part of the server's time. A long queue is not walked, so a JVM may
-- move our waiters back there.
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
    -- The keys are Redisson's own, as long as a JVM is in them.
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

-- Tells the head of a free lock that it is its turn, in the way in which it listens.
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
