-- Prelude: gives a key a lease that never shortens the one it has. Returns the lease left, in milliseconds.

local function extend_lease(key, lease)
  local left = redis.call('PTTL', key)
  if left >= lease then
    return left
  end
  redis.call('PEXPIRE', key, lease)
  return lease
end
