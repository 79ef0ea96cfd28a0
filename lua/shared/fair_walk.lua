-- Prelude: walks a whole fair queue. Runs rarely, and only while foreign entries wait.
--
-- A granted JVM subtracts its own wait from the score of every later entry. JVMs also evict heads with a past score. So
-- a native waiter behind JVMs needs a score that survives all their grants: the guard.

-- Runs a command in chunks, because a Lua call accepts a few thousand arguments.
local function in_parts(command, key, words)
  for from = 1, #words, 500 do
    redis.call(command, key, unpack(words, from, math.min(from + 499, #words)))
  end
end

-- Returns the wait that a JVM apparently requested: the distance between its score and the preceding score.
local function observed_wait(fair, score, before)
  if before and not is_tombstone(before) and score > before and score < math.huge then
    return score - before
  elseif score < math.huge then
    return math.max(fair.cap, score - fair.now)
  end
  return fair.cap
end

-- Deletes the marks of entries that left the queue, for example because a JVM removed the entry.
local function forget_absent(fair, marks, queued)
  local stale = {}
  for field in pairs(marks) do
    local entry = string.match(field, '^[awc]:(.*)$')
    if entry and not queued[entry] then
      stale[#stale + 1] = field
    end
  end
  in_parts('HDEL', fair.marks, stale)
end

local function walk_queue(fair, gap)
  local marks = paired(redis.call('HGETALL', fair.marks))
  local scores = paired(redis.call('ZRANGE', fair.deadlines, 0, -1, 'WITHSCORES'))
  local entries = redis.call('LRANGE', fair.queue, 0, -1)
  local kept, queued, dropped, scored, noted = {}, {}, {}, {}, {}
  -- `sum` adds the waits of the JVMs so far. `guard` uses a JVM's maximum wait instead, because a JVM's wait may change
  -- before it leaves.
  local sum, guard, before, foreign = 0, 0, nil, false
  for _, entry in ipairs(entries) do
    local score = tonumber(scores[entry])
    if not score or queued[entry] then
      repair(fair)
      return walk_queue(fair, gap)
    end
    local wanted = score
    local keeps = true
    if is_tombstone(score) then
      keeps = false
    elseif is_foreign(fair, entry) then
      foreign = true
      local note = marks[mark_of('w', entry)]
      local wait, seen = string.match(note or '', '^(%d+) (%d+)$')
      wait = tonumber(wait)
      if not wait or score > tonumber(seen) then
        -- A new or returned entry. Lower its score once, to the score that a JVM would set.
        wait = observed_wait(fair, score, before)
        wanted = math.min(score, fair.now + held_for(fair) + sum + wait + fair.reach)
        if marks[mark_of('c', entry)] then
          redis.call('HDEL', fair.marks, mark_of('c', entry))
        end
      end
      local now_seen = string.format('%.0f %.0f', wait, wanted)
      if now_seen ~= note then
        noted[#noted + 1] = mark_of('w', entry)
        noted[#noted + 1] = now_seen
      end
      sum = sum + wait
      guard = guard + math.max(wait, fair.cap)
    elseif is_alive(fair, entry) then
      local low = fair.now + fair.reach + guard + gap
      if score < low or score > low + 3 * gap then
        wanted = low + 2 * gap
      end
    else
      keeps = false
    end
    if keeps then
      kept[#kept + 1] = entry
      queued[entry] = true
      if wanted ~= score then
        scored[#scored + 1] = wanted
        scored[#scored + 1] = entry
      end
    else
      dropped[#dropped + 1] = entry
    end
    before = score
  end

  in_parts('ZADD', fair.deadlines, scored)
  in_parts('HSET', fair.marks, noted)
  if #dropped > 0 then
    in_parts('ZREM', fair.deadlines, dropped)
    rewrite_queue(fair, kept)
  end
  forget_absent(fair, marks, queued)
  if foreign then
    redis.call('HSET', fair.marks, 'f', 1, 'k', fair.now, 'g', guard + 3 * gap)
  else
    redis.call('HDEL', fair.marks, 'f', 'k', 'g')
  end
  fair.mixed = foreign
end
