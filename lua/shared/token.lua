-- Prelude: fencing tokens. A token is the server's time in microseconds, or the last token plus one if that is greater.
-- So tokens grow with every grant, even if a failover lost the last token. Tokens are strings, and stay below 2^53,
-- which every client can represent. The key is never deleted. `last` is the result of GET.

-- Returns an error if no token can follow, or nil. Above this limit Lua cannot add 1, and the next token would repeat
-- an old token.
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
  -- An operator deleted the token of a held lock. A new token is greater than the lost token.
  return last or next_token(key, last)
end
