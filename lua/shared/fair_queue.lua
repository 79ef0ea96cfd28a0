-- Prelude: removes stale entries from a fair queue, and repairs a damaged queue.

local function withdraw_offer(fair)
  if fair.offer then
    redis.call('HDEL', fair.marks, 'o', 'ot')
    fair.offer = false
  end
end

-- Deletes the marks of an entry that leaves the queue.
local function forget(fair, entry)
  redis.call('HDEL', fair.marks, mark_of('a', entry), mark_of('w', entry), mark_of('c', entry))
  if fair.offer == entry then
    withdraw_offer(fair)
  end
end

local function pop_head(fair, head)
  redis.call('LPOP', fair.queue)
  redis.call('ZREM', fair.deadlines, head)
  forget(fair, head)
end

-- Rewrites the list in chunks, because a Lua call accepts a few thousand arguments.
local function rewrite_queue(fair, entries)
  redis.call('DEL', fair.queue)
  fair.ends = nil
  for from = 1, #entries, 500 do
    redis.call('RPUSH', fair.queue, unpack(entries, from, math.min(from + 499, #entries)))
  end
end

-- Repairs list and scores that name different entries, after a key was deleted, evicted or edited. Drops a long queue,
-- whose waiters queue again with their next request.
local function repair(fair)
  if is_long(fair) then
    redis.call('DEL', fair.queue, fair.deadlines)
    fair.scattered, fair.length, fair.scores = false, 0, 0
    return
  end
  local listed, entries = {}, {}
  for _, entry in ipairs(redis.call('LRANGE', fair.queue, 0, -1)) do
    local score = not listed[entry] and score_of(fair, entry)
    -- The entry may move to the middle of the queue, where only `mixed` reveals it.
    fair.mixed = fair.mixed or is_foreign(fair, entry)
    if not listed[entry] and not score then
      if is_foreign(fair, entry) then
        score = fair.now + held_for(fair) + fair.cap
      elseif is_alive(fair, entry) then
        score = fair.now + fair.reach
      end
      if score then
        redis.call('ZADD', fair.deadlines, score, entry)
      else
        forget(fair, entry)
      end
    end
    if score then
      entries[#entries + 1] = entry
    end
    listed[entry] = true
  end
  for _, entry in ipairs(redis.call('ZRANGE', fair.deadlines, 0, -1)) do
    if not listed[entry] then
      -- Keep only native waiters. A removed JVM queues again at its next try.
      if is_alive(fair, entry) and not is_tombstone(score_of(fair, entry)) then
        entries[#entries + 1] = entry
      else
        redis.call('ZREM', fair.deadlines, entry)
        forget(fair, entry)
      end
    end
  end
  rewrite_queue(fair, entries)
  fair.scattered = false
end

-- Notifies once a listening JVM whose deadline passed during a long hold, and gives it `grace` to return. The raised
-- score prevents the JVM's own next command from evicting it.
local function second_chance(fair, head)
  if redis.call('HEXISTS', fair.marks, mark_of('c', head)) == 1 then
    return false
  end
  if redis.call(fair.publish, channel_of(fair, head), '0') == 0 then
    return false
  end
  fair.told = head
  local score = fair.now + fair.grace
  redis.call('HSET', fair.marks, mark_of('c', head), 1)
  local wait = string.match(redis.call('HGET', fair.marks, mark_of('w', head)) or '', '^(%d+) ')
  if wait then
    -- Otherwise the walk would treat the entry as rejoined.
    redis.call('HSET', fair.marks, mark_of('w', head), string.format('%.0f %.0f', wait, score))
  end
  redis.call('ZADD', fair.deadlines, score, head)
  return true
end

-- Removes stale heads, and returns the first waiting head, if any. After two thousand removals the next command
-- continues, and until then the head is a stale entry.
local function prune(fair)
  if fair.held then
    -- The lock was granted, so the claim time restarts when the lock is next free.
    withdraw_offer(fair)
  end
  local head = nil
  for _ = 1, 2000 do
    head = redis.call('LINDEX', fair.queue, 0)
    local score = head and score_of(fair, head)
    if fair.scattered or (head and not score) then
      repair(fair)
    elseif not head then
      -- A new list has no expiry. The marks may record the old list's expiry.
      fair.ends = nil
      return nil
    elseif is_tombstone(score) then
      pop_head(fair, head)
    elseif is_foreign(fair, head) then
      -- No entry needs evicting while the lock is held.
      if fair.held or score > fair.now - fair.skew or second_chance(fair, head) then
        return head
      end
      pop_head(fair, head)
    elseif not is_alive(fair, head) then
      pop_head(fair, head)
    elseif not fair.held and fair.offer == head and fair.now - fair.offered_at > fair.claim then
      -- The process is alive and was notified, but did not acquire the lock.
      pop_head(fair, head)
    else
      return head
    end
  end
  return head
end
