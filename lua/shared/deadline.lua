-- Prelude: extends the deadlines of permits, never shortens them. 922337203685477 means "no expiry", as in Redisson,
-- and is the maximum. Returns the lowest deadline of the permits.

local function extend_deadlines(key, ids, deadline)
  -- Write this no-op first. A server that is out of memory lets a script finish after its first write, so renewals
  -- still succeed.
  redis.call('ZREM', key, '')
  local lowest = nil
  deadline = math.min(deadline, 922337203685477)
  for i = 1, #ids do
    local stored = tonumber(redis.call('ZSCORE', key, ids[i]))
    if stored < deadline then
      redis.call('ZADD', key, deadline, ids[i])
      stored = deadline
    end
    -- A forged score may be infinite.
    lowest = math.min(lowest or 922337203685477, stored)
  end
  return lowest
end
