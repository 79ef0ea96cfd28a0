-- Prelude: the grant of a lock that is a hash of hold counts, and the reply to it. `ask` has the `hold`, and its `lease` in milliseconds.
-- Servers before 7.2 take a third of a microsecond to make a text of a number, for each number that a command has. So what goes to a
-- command stays the text that it was, as far as it can.

-- Gives a free lock to the hold. It is the last step of a grant, so that no error before it leaves a hold behind.
local function grant_hold(key, ask)
  redis.call('HSET', key, ask.hold, '1')
  local set = redis.pcall('PEXPIRE', key, ask.lease)
  if type(set) == 'table' then
    -- A user who may not set a time to live must not leave a lock without one.
    redis.call('DEL', key)
    return set
  end
  return {1, tonumber(ask.lease)}
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
