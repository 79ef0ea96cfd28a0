-- Prelude: fencing tokens. A token is the server's time in microseconds, or one more than the last token where that is
-- greater: tokens grow with every grant, even if a failover has lost the last of them. It stays below 2^53, so that every
-- client can count with it, and travels as text. The key is never deleted. `last` is what GET says of it.

-- The error where no token can follow, or nil: beyond this Lua cannot add one, and the next token would be an old one.
local function refuse_token(last)
  if (tonumber(last or 0) or 0) >= 9007199254740991 then
    return redis.error_reply('ERR the last fencing token is not below 2^53 - 1')
  end
  return nil
end

local function next_token(key, last)
  local time = redis.call('TIME')
  local token = tonumber(time[1]) * 1000000 + tonumber(time[2])
  local stored = tonumber(last or 0)
  if stored and stored >= token then
    token = stored + 1
  end
  local text = string.format('%.0f', token)
  redis.call('SET', key, text)
  return text
end

local function same_token(key, last)
  -- A key that is gone although its lock is held was deleted by hand: a new token is greater than the lost one.
  return last or next_token(key, last)
end
