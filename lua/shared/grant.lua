-- Prelude: grants a lock that is a hash of hold counts, and completes the reply. `ask` has the `hold` and its `lease`
-- in milliseconds.

-- Grants a free lock.
local function grant_hold(key, ask)
  return give_lock(key, ask.hold, ask.lease) or {1, tonumber(ask.lease)}
end

-- Adds the server's time to a reply. Replies with a hold also get its fencing token, if any.
local function complete(reply, time, token)
  if not reply.err then
    reply[3] = time
    if reply[1] > 0 then
      reply[4] = token
    end
  end
  return reply
end
