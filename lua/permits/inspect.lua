-- Returns the numbers of available and held permits, and the permits that expire first. Read-only: expired permits
-- count as available, although only the next acquire or release returns them.
--
-- KEYS[1]  permits    [string]  the number of available permits, in decimal
-- KEYS[2]  deadlines  [zset]    id of a held permit -> its deadline, in milliseconds since the epoch
-- returns  [array]    {1, available, held, id, left, ...}  the sum of both numbers is the capacity; then the id and the remaining lease
--                                 in milliseconds of each held permit, -1 without expiry; at most 1000 permits
--                     {0}         the semaphore is missing
--                     {-4, kind}  a key is of another kind, named by kind
-- example  KEYS seats {seats}:timeout  returns {1, 9, 1, "0123456789abcdef", 29640}

local permits_key, deadlines_key = KEYS[1], KEYS[2]

local value = short_text(permits_key)
if type(value) == 'table' then
  return refuse_kind(value, permits_key)
end
if value and not whole(value) then
  return {-4, 'string that is no number'}
end
local held_in_all = redis.pcall('ZCARD', deadlines_key)
if type(held_in_all) == 'table' then
  return refuse_kind(held_in_all, deadlines_key)
end
if not value and held_in_all == 0 then
  return {0}
end

local time = server_time()
local expired = 0
if value then
  expired = redis.call('ZCOUNT', deadlines_key, '-inf', time)
end
local reply = {1, whole(value or '0') + expired, held_in_all - expired}
local list = redis.call('ZRANGE', deadlines_key, expired, expired + 999, 'WITHSCORES')
for i = 1, #list, 2 do
  local deadline = tonumber(list[i + 1])
  reply[#reply + 1] = list[i]
  reply[#reply + 1] = deadline < 922337203685477 and math.max(0, deadline - time) or -1
end
return reply
