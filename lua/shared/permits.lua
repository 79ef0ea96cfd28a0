-- Prelude: permits come back to where they were taken from. Available and held permits are together the capacity, always.
--
-- A semaphore that was deleted stays so: what comes back to it is gone, because a counter that sprang up again would keep
-- everybody from setting it anew.

local function give_back(key, deadlines_key, ids)
  -- Removing nothing shows that removing is allowed, and begins to write: a server whose memory is full lets the script finish.
  redis.call('ZREM', deadlines_key, '')
  if redis.call('EXISTS', key) == 1 then
    redis.call('INCRBY', key, #ids)
  end
  for i = 1, #ids do
    redis.call('ZREM', deadlines_key, ids[i])
  end
end

-- Gives back what has expired, at most a thousand permits a call, and returns how many these were.
local function reap_permits(key, deadlines_key, time)
  local expired = redis.call('ZRANGEBYSCORE', deadlines_key, '-inf', time, 'LIMIT', 0, 1000)
  if #expired > 0 then
    give_back(key, deadlines_key, expired)
  end
  return #expired
end
