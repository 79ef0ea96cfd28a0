-- Prelude: extends the deadlines of permits. A deadline never moves closer. 922337203685477 means "no expiry", as in
-- Redisson, and later deadlines become that value. Returns the lowest deadline of the permits.

local function extend_deadlines(key, ids, deadline)
  -- This no-op write goes first. A server without free memory lets a script finish once it has written, so renewals
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
    -- The stored score may be infinite, written by hand.
    lowest = math.min(lowest or 922337203685477, stored)
  end
  return lowest
end
