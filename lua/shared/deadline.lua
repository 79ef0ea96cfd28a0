-- Prelude: the deadline of a permit never comes nearer. 922337203685477 stands for "no expiry", here and in Redisson; a lease
-- that ends later than that has no end. Returns the lowest deadline of the permits.

local function extend_deadlines(key, ids, deadline)
  -- Removing nothing begins to write: a server whose memory is full lets the script finish, so that renewals need none.
  redis.call('ZREM', key, '')
  local lowest = nil
  deadline = math.min(deadline, 922337203685477)
  for i = 1, #ids do
    local stored = tonumber(redis.call('ZSCORE', key, ids[i]))
    if stored < deadline then
      redis.call('ZADD', key, deadline, ids[i])
      stored = deadline
    end
    -- Somebody may have written that it is infinite.
    lowest = math.min(lowest or 922337203685477, stored)
  end
  return lowest
end
