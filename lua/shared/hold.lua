-- Prelude: the hold counts of the locks that are a hash of them. `ask` has the `hold`, its `count` after success, its `lease` in
-- milliseconds, and `not_after`. The replies are those of an acquire, without what each script adds behind the second value.

-- Raises the count of a hold that is there, and has the count `stored`.
local function raise_hold(key, ask, stored)
  if stored < ask.count - 1 then
    return {-1, stored}
  elseif stored > ask.count then
    return {3, redis.call('PTTL', key)}
  end
  -- The lease first, so that an error in between leaves the count as it was.
  local left = extend_lease(key, ask.lease)
  if stored == ask.count then
    return {2, left}
  end
  redis.call('HSET', key, ask.hold, ask.count)
  return {1, left}
end

-- Gives a free lock to the hold. It is the last step of a grant, so that no error before it leaves a hold behind.
local function grant_hold(key, ask)
  redis.call('HSET', key, ask.hold, 1)
  local set = redis.pcall('PEXPIRE', key, ask.lease)
  if type(set) == 'table' then
    -- A user who may not set a time to live must not leave a lock without one.
    redis.call('DEL', key)
    return set
  end
  return {1, ask.lease}
end

-- Adds to a reply the server's time, and to one that tells of a hold its fencing token, where it has one.
local function complete(reply, time, token)
  if not reply.err then
    reply[3] = time
    if reply[1] > 0 then
      reply[4] = token
    end
  end
  return reply
end
