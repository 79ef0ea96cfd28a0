-- Prelude: the beginning of every fair script.

-- Reads what the settings say, whether the lock is held, and the marks that are not an entry's. Answers with nothing, or
-- with a refusal where one of the keys is of another kind.
local function open_fair(fair, settings)
  local window, skew, cap, claim, grace, walk, idle =
    string.match(settings, '^(%d+),%d+,(%d+),(%d+),(%d+),(%d+),(%d+),(%d+)$')
  fair.window, fair.skew, fair.cap, fair.claim = tonumber(window), tonumber(skew), tonumber(cap), tonumber(claim)
  fair.grace, fair.gap, fair.idle = tonumber(grace), tonumber(walk), tonumber(idle)
  -- How long a waiter of ours that is not heard of again keeps its place, by a JVM's clock too.
  fair.reach = fair.window + fair.skew
  fair.beats = {}

  fair.length = redis.pcall('LLEN', fair.queue)
  if type(fair.length) == 'table' then
    return refuse_kind(fair.length, fair.queue)
  end
  fair.scores = redis.pcall('ZCARD', fair.deadlines)
  if type(fair.scores) == 'table' then
    return refuse_kind(fair.scores, fair.deadlines)
  end
  local marks = redis.pcall('HMGET', fair.marks, 'o', 'ot', 'f', 'k', 'g', 'h', 's', 'e')
  if marks.err then
    return refuse_kind(marks, fair.marks)
  end

  fair.scattered = fair.length ~= fair.scores
  fair.offer, fair.offered_at = marks[1], tonumber(marks[2]) or 0
  fair.mixed, fair.walked, fair.guard = marks[3] == '1', tonumber(marks[4]), tonumber(marks[5]) or 0
  fair.holder, fair.swept, fair.ends = marks[6], tonumber(marks[7]) or 0, tonumber(marks[8] or nil)
  -- A heartbeat alone is not looked for: marks that have nothing else get an end once more.
  fair.has_marks = marks[1] or marks[3] or marks[6] or marks[7] or marks[8]
  fair.left = redis.call('PTTL', fair.lock)
  -- -2 says that there is no such key.
  fair.held = fair.left > -2
  if fair.length > 0 and not marks[6] and not marks[3] and redis.call('EXISTS', fair.marks) == 0 then
    -- The marks were lost while somebody waited, so foreign entries may stand anywhere: the next upkeep looks.
    fair.mixed = true
  end
end

-- Writes a mark. Where the marks come into being by that, they have an end at once, even if the script is refused what follows.
local function mark(fair, field, value)
  if redis.call('HSET', fair.marks, field, value) == 0 or fair.has_marks then
    return
  end
  fair.has_marks = true
  if type(redis.pcall('PEXPIRE', fair.marks, fair.idle)) == 'table' then
    -- A user who may not set a time to live must not leave marks without one: the script ends when it is refused again.
    redis.call('HDEL', fair.marks, field)
    redis.call('PEXPIRE', fair.marks, fair.idle)
    redis.call('HSET', fair.marks, field, value)
    redis.call('PEXPIRE', fair.marks, fair.idle)
  end
end

-- Whether the lock is held by somebody whom no command of ours has granted it.
local function holder_is_foreign(fair)
  return fair.held and redis.pcall('HEXISTS', fair.lock, fair.holder or '') == 0
end

-- What every reply tells a waiter of the lease: -1 where nobody holds the lock, or for ever.
local function lease_left(fair)
  return math.max(fair.left, -1)
end

-- Whether a waiter has to listen as a JVM does, because whoever comes before it may announce its turn in a JVM's way.
local function foreign_bit(fair)
  if fair.mixed or holder_is_foreign(fair) then
    return 1
  end
  return 0
end
