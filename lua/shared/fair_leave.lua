-- Prelude: gives up a place in a fair queue.

-- Returns whether the entry had a place. Without JVMs, an entry in the middle becomes a tombstone, because searching
-- the list is slow. With JVMs, the script removes the entry, because an arriving JVM would adopt the tombstone's score.
-- A long queue is never searched.
local function leave_queue(fair, entry)
  local score = score_of(fair, entry)
  if not score or is_tombstone(score) then
    return false
  end
  local tail = redis.call('LINDEX', fair.queue, -1)
  if redis.call('LINDEX', fair.queue, 0) == entry then
    pop_head(fair, entry)
  elseif tail == entry then
    redis.call('RPOP', fair.queue)
    redis.call('ZREM', fair.deadlines, entry)
    forget(fair, entry)
  elseif not is_long(fair) and (fair.mixed or tail and is_foreign(fair, tail)) then
    redis.call('LREM', fair.queue, 0, entry)
    redis.call('ZREM', fair.deadlines, entry)
    forget(fair, entry)
  else
    redis.call('ZADD', fair.deadlines, 1, entry)
    forget(fair, entry)
  end
  return true
end
