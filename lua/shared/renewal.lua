-- Prelude: renews the leases of many keys.

-- Gives a key a lease that never shortens the one it has. Returns the lease left, in milliseconds, or `lease` itself if it is
-- as long as that, and whether the server compares.
--
-- Redis 7 and Valkey compare the new lease and the old one by themselves, which spares the question for the old one. An earlier server refuses
-- the word GT and leaves the lease as it was: the question is asked for this key then, and for all that follow.
local function renew_lease(key, lease, compares)
  if compares then
    local set = redis.pcall('PEXPIRE', key, lease, 'GT')
    if set == 1 then
      return lease, true
    end
    compares = set == 0
  end
  return extend_lease(key, lease), compares
end
