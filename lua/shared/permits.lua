-- Prelude: returns permits to the counter. Available plus held permits always equal the capacity.
--
-- A deleted semaphore stays deleted, and permits returned to it are dropped: a recreated counter would prevent a new
-- `set`.

local function give_back(key, deadlines_key, ids)
  -- This no-op write goes first. It proves the permission for ZREM, and a server without free memory lets a script
  -- finish once it has written.
  redis.call('ZREM', deadlines_key, '')
  if redis.call('EXISTS', key) == 1 then
    redis.call('INCRBY', key, #ids)
  end
  for i = 1, #ids do
    redis.call('ZREM', deadlines_key, ids[i])
  end
end

-- Returns expired permits, at most a thousand per call. Returns their number.
local function reap_permits(key, deadlines_key, time)
  local expired = redis.call('ZRANGEBYSCORE', deadlines_key, '-inf', time, 'LIMIT', 0, 1000)
  if #expired > 0 then
    give_back(key, deadlines_key, expired)
  end
  return #expired
end
