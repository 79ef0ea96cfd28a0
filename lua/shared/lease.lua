-- Prelude: extends the lease of a key, never shortens it. Returns the remaining lease in milliseconds. Pass `lease` as
-- a string, which costs the server less than a number.

local function extend_lease(key, lease)
  local left = redis.call('PTTL', key)
  if left >= tonumber(lease) then
    return left
  end
  redis.call('PEXPIRE', key, lease)
  return tonumber(lease)
end
