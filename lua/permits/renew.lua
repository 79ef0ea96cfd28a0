-- Renews the leases of many holds in one call. A hold that lost a permit does not affect other holds.
--
-- KEYS[i]     deadlines  [zset]     id of a held permit -> its deadline, in milliseconds since the epoch
-- ARGV[2i-1]  ids        [string]   the ids of the i-th hold, sixteen bytes each
-- ARGV[2i]    lease      [integer]  milliseconds, at least 1; an existing lease is never shortened
-- returns     [array]    two integers for each hold, in order: {count, left, count, left, ...}
--                        count is 1 if all permits of the hold exist, 0 where one is gone, -4 where the key is of another kind,
--                        -5 where the server refused this key; left is the remaining lease in milliseconds, 0 if count is not positive
-- example     KEYS {a}:timeout {b}:timeout  ARGV 0123456789abcdef 30000 fedcba9876543210 30000  returns {1, 30000, 0, 0}

local reply = {}
local time = server_time()
for i = 1, #KEYS do
  local count, left = 0, 0
  local ids, lease = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  local held_in_all = redis.pcall('ZCARD', KEYS[i])
  if type(held_in_all) == 'table' then
    count = refuse_kind(held_in_all, KEYS[i]).err and -5 or -4
  else
    local held, all = find_held(KEYS[i], ids, time)
    if #held == #all then
      count = 1
      left = extend_deadlines(KEYS[i], all, time + lease) - time
    end
  end
  reply[2 * i - 1] = count
  reply[2 * i] = left
end
return reply
