-- Prelude: renews the leases of many keys.

-- Extends the lease of a key, never shortens it. Returns the remaining lease in milliseconds (`lease` itself if equal),
-- and whether the server supports GT.
--
-- Redis 7 and Valkey compare both leases for PEXPIRE GT, which saves a PTTL. An older server rejects GT and leaves the
-- lease unchanged. Then the script uses PTTL for this key and all later keys.
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
