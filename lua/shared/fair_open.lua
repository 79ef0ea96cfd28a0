-- Prelude: the start of every fair script.

-- Reads the settings, the state of the lock, and the marks that belong to no entry. Returns a refusal if a key is of
-- another kind, else nil.
local function open_fair(fair, settings)
  local window, skew, cap, claim, grace, walk, idle =
    string.match(settings, '^(%d+),%d+,(%d+),(%d+),(%d+),(%d+),(%d+),(%d+)$')
  fair.window, fair.skew, fair.cap, fair.claim = tonumber(window), tonumber(skew), tonumber(cap), tonumber(claim)
  fair.grace, fair.gap, fair.idle = tonumber(grace), tonumber(walk), tonumber(idle)
  -- A silent native waiter keeps its place for this time, even by a JVM's clock.
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
  -- Heartbeats need no check: the script only renews the expiry of their marks.
  fair.has_marks = marks[1] or marks[3] or marks[6] or marks[7] or marks[8]
  fair.left = redis.call('PTTL', fair.lock)
  -- PTTL returns -2 for a missing key.
  fair.held = fair.left > -2
  if fair.length > 0 and not marks[6] and not marks[3] and redis.call('EXISTS', fair.marks) == 0 then
    -- The marks were lost while waiters queued, so any entry may be foreign. The next upkeep walks the queue.
    fair.mixed = true
  end
end

-- Writes a mark. New marks get an expiry at once, in case the server refuses a later command.
local function mark(fair, field, value)
  if redis.call('HSET', fair.marks, field, value) == 0 or fair.has_marks then
    return
  end
  fair.has_marks = true
  if type(redis.pcall('PEXPIRE', fair.marks, fair.idle)) == 'table' then
    -- A user without permission for PEXPIRE must not leave marks without expiry. A second refusal of PEXPIRE ends the
    -- script.
    redis.call('HDEL', fair.marks, field)
    redis.call('PEXPIRE', fair.marks, fair.idle)
    redis.call('HSET', fair.marks, field, value)
    redis.call('PEXPIRE', fair.marks, fair.idle)
  end
end

-- Returns whether no leasehold command granted the current hold.
local function holder_is_foreign(fair)
  return fair.held and redis.pcall('HEXISTS', fair.lock, fair.holder or '') == 0
end

-- Returns the lease for a reply, or -1 for a free lock or a lock without expiry.
local function lease_left(fair)
  return math.max(fair.left, -1)
end

-- Returns 1 if a waiter must listen on a JVM's channel, because a JVM may announce its turn.
local function foreign_bit(fair)
  if fair.mixed or holder_is_foreign(fair) then
    return 1
  end
  return 0
end
