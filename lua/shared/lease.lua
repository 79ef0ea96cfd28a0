-- Prelude: gives a key a lease that never shortens the one it has. Returns the lease left, in milliseconds. A `lease` that is the text of
-- a number costs a server less than the number.

local function extend_lease(key, lease)
  local left = redis.call('PTTL', key)
  if left >= tonumber(lease) then
    return left
  end
  redis.call('PEXPIRE', key, lease)
  return tonumber(lease)
end
