-- Renews the leases of many simple locks in one call. A missing key or a key of another kind does not affect other
-- locks.
--
-- KEYS[i]    lock   [string]   the i-th lock
-- ARGV[2i-1] hold   [string]   the id of the i-th hold
-- ARGV[2i]   lease  [integer]  milliseconds, at least 1; an existing lease is never shortened
-- returns    [array]  two integers for each lock, in order: {count, left, count, left, ...}
--                     count is 1, 0 where the hold is gone, -4 where the key is not a string,
--                     -5 where the server refused this key; left is the remaining lease in milliseconds, 0 if count is not positive
-- example    KEYS a b  ARGV Xu2k 30000 Xu2k 30000  returns {1, 30000, 0, 0}

local reply = {}
for i = 1, #KEYS do
  local count, left = 0, 0
  local stored = short_text(KEYS[i])
  if type(stored) == 'table' then
    count = refuse_kind(stored, KEYS[i]).err and -5 or -4
  elseif stored == ARGV[2 * i - 1] then
    count = 1
    left = extend_lease(KEYS[i], ARGV[2 * i])
  end
  reply[2 * i - 1] = count
  reply[2 * i] = left
end
return reply
