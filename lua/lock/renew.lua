-- Renews the leases of many locks in one call. Each key stands alone: one that is gone, or of another kind, harms no other.
--
-- KEYS[i]    lock   [hash]     the i-th lock
-- ARGV[2i-1] hold   [string]   the field of the i-th hold: uuid:number
-- ARGV[2i]   lease  [integer]  milliseconds, at least 1; an existing lease is never shortened
-- returns    [array]  two integers for each lock, in order: {count, left, count, left, ...}
--                     count is the hold count, 0 where the hold is gone, -4 where the key is not a hash,
--                     -5 where the server refused this key; left is the lease left in milliseconds, 0 where count is not positive
-- example    KEYS a b  ARGV 6f0c…:7 30000 6f0c…:8 30000  returns {1, 30000, 0, 0}

-- Redis 7 and Valkey compare the two leases by themselves, which spares the question for the one there is. An older server refuses the word
-- GT, and an error leaves the lease as it was: then the question is asked for this key and all that follow.
local compares = true

local function renew_lease(key, lease)
  if compares then
    local set = redis.pcall('PEXPIRE', key, lease, 'GT')
    if set == 1 then
      return tonumber(lease)
    end
    compares = set == 0
  end
  return extend_lease(key, tonumber(lease))
end

local reply = {}
for i = 1, #KEYS do
  local key = KEYS[i]
  local count, left = 0, 0
  local stored = redis.pcall('HGET', key, ARGV[2 * i - 1])
  if type(stored) == 'table' then
    count = refuse_kind(stored, key).err and -5 or -4
  elseif stored then
    count = hold_count(stored)
    left = renew_lease(key, ARGV[2 * i])
  end
  reply[2 * i - 1] = count
  reply[2 * i] = left
end
return reply
