-- Prelude: the acquire of the fair lock, with or without a fencing token.
--
-- `ask` has the fields that `hold.lua` requires, plus `waits` (the hold may queue) and `placed` (the hold had a place
-- before).

-- Returns whether a JVM's entry changed since the last walk: it is new, it rejoined, or an earlier entry was granted.
-- The walk's guard may then be too small for the next entry.
local function is_unseen(fair, entry)
  local seen = string.match(redis.call('HGET', fair.marks, mark_of('w', entry)) or '', ' (%d+)$')
  return tonumber(seen) ~= score_of(fair, entry)
end

-- Appends the hold to the queue. Returns whether the script must walk the queue.
local function join_queue(fair, entry)
  local tail = redis.call('LINDEX', fair.queue, -1)
  local unseen = false
  if tail and is_foreign(fair, tail) then
    unseen = is_unseen(fair, tail)
    if not fair.mixed then
      -- The new entry hides the JVM in the middle of the queue. The mark `f` records the hidden JVM.
      redis.call('HSET', fair.marks, 'f', 1)
      fair.mixed = true
    end
  end
  local score = fair.now + fair.reach
  if fair.mixed then
    score = score + fair.guard
  end
  mark(fair, mark_of('a', entry), fair.now)
  redis.call('ZADD', fair.deadlines, score, entry)
  if fair.length == 0 then
    redis.call('PEXPIRE', fair.deadlines, fair.idle)
  end
  redis.call('RPUSH', fair.queue, entry)
  if fair.length == 0 then
    redis.call('PEXPIRE', fair.queue, fair.idle)
  end
  return unseen
end

-- Maintains the queue after a refused grant. Returns the head.
local function settle(fair, force)
  maintain(fair, force)
  wake(fair)
  return redis.call('LINDEX', fair.queue, 0)
end

-- Returns the reply, or nil if the caller must grant the lock.
local function acquire_place(fair, ask, settings)
  local entry = ask.hold
  if ask.count > 1 then
    return {-2, 0, fair.now}
  end
  local refusal = open_fair(fair, settings)
  if refusal then
    return refusal
  elseif fair.held and redis.call('HEXISTS', fair.lock, 'mode') == 1 then
    return {-4, 'read-write lock'}
  end
  local own = score_of(fair, entry)
  if own and is_tombstone(own) then
    return {-7, 0, fair.now}
  end
  local late = ask.not_after > 0 and fair.now > ask.not_after
  if ask.waits and not late then
    mark(fair, mark_of('p', process_of(entry)), fair.now)
    fair.beats[process_of(entry)] = fair.now
  end

  local head = prune(fair)
  own = own and score_of(fair, entry)
  local granted = not fair.held and (not head or head == entry)
  local joins = not granted and not own and ask.waits
  if late and (granted or joins) then
    settle(fair, false)
    return {-3, 0, fair.now}
  elseif granted then
    if head then
      pop_head(fair, entry)
    end
    fair.held, fair.left = true, ask.lease
    -- The mark distinguishes native holders from JVMs.
    mark(fair, 'h', entry)
    -- The next entry may have left. The next command must not treat it as a live head.
    prune(fair)
    maintain(fair, false)
    return nil
  elseif not own and not joins then
    settle(fair, false)
    return {0, lease_left(fair), fair.now}
  end

  local force = joins and join_queue(fair, entry)
  head = settle(fair, force)
  local moved = joins and ask.placed and 1 or 0
  return {4, lease_left(fair), fair.now, moved, head == entry and 1 or 0, foreign_bit(fair)}
end
