-- Prelude: raises the hold count in a hash of counts. `ask` has the `hold`, its `count` after success, its `lease` in
-- milliseconds, and `not_after`. Replies contain the first two values of an acquire's reply.

-- Raises the count of an existing hold with the count `stored`.
local function raise_hold(key, ask, stored)
  if stored < ask.count - 1 then
    return {-1, stored}
  elseif stored > ask.count then
    return {3, redis.call('PTTL', key)}
  end
  -- Extend the lease first, so an error leaves the count unchanged.
  local left = extend_lease(key, ask.lease)
  if stored == ask.count then
    return {2, left}
  end
  if redis.call('HSET', key, ask.hold, ask.count) == 1 then
    -- The server's clock jumped back and the key expired. HSET recreated it without a time to live.
    redis.call('PEXPIRE', key, ask.lease)
  end
  return {1, left}
end
