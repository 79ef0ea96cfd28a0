-- Renews the leases of many locks in one call. A missing key or a key of another kind does not affect other locks.
--
-- KEYS[i]    lock   [hash]     the i-th lock
-- ARGV[2i-1] hold   [string]   the field of the i-th hold: uuid:number
-- ARGV[2i]   lease  [integer]  milliseconds, at least 1; an existing lease is never shortened
-- returns    [array]  two integers for each lock, in order: {count, left, count, left, ...}
--                     count is the hold count, 0 where the hold is gone, -4 where the key is not a hash,
--                     -5 where the server refused this key; left is the remaining lease in milliseconds, 0 if count is not positive
-- example    KEYS a b  ARGV 6f0c…:7 30000 6f0c…:8 30000  returns {1, 30000, 0, 0}

local reply, compares, lease, number = {}, true, nil, nil
for i = 1, #KEYS do
  local count, left = 0, 0
  local stored = redis.pcall('HGET', KEYS[i], ARGV[2 * i - 1])
  if type(stored) == 'table' then
    count = refuse_kind(stored, KEYS[i]).err and -5 or -4
  elseif stored then
    count = hold_count(stored)
    if lease ~= ARGV[2 * i] then
      -- Cache the conversion, because most leases equal the previous lease.
      lease, number = ARGV[2 * i], tonumber(ARGV[2 * i])
    end
    left, compares = renew_lease(KEYS[i], lease, compares)
    if left == lease then
      left = number
    end
  end
  reply[2 * i - 1] = count
  reply[2 * i] = left
end
return reply
