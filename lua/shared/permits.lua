-- Prelude: returns permits to the counter. Available plus held permits always equal the capacity.
--
-- A deleted semaphore stays deleted. Its returning permits are dropped, because a recreated counter would prevent a new
-- `set`.

local function give_back(key, deadlines_key, ids)
  -- Write this no-op first. It proves the permission for ZREM, and a server that is out of memory lets a script finish
  -- after its first write.
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
