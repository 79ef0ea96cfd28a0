-- Prelude: the register of fencing tokens for one guarded value. Stores the greatest presented token, with its owner. A
-- lower token is stale. An equal token of another owner was issued twice, by a server that lost a write.
--
-- A refusal is {0, registered}, {-1, registered} or {-4, kind}. nil means admitted and registered.

local function admit_token(key, known, token, owner)
  local registered = whole(known[1] or '0')
  if not registered then
    return {-4, 'hash whose field token is no number'}
  end
  if token < registered then
    return {0, registered}
  end
  if token == registered and known[2] ~= owner then
    return {-1, registered}
  end
  if token > registered then
    redis.call('HSET', key, 'token', token, 'owner', owner, 'write', 0)
  end
  return nil
end

-- Expires the register in `keep` milliseconds; 0 means never.
local function keep_register(key, keep)
  if keep > 0 then
    redis.call('PEXPIRE', key, keep)
  else
    redis.call('PERSIST', key)
  end
end
