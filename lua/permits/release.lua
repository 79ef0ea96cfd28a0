-- Returns the permits of a hold, and notifies the waiters. Expired permits have already returned.
--
-- KEYS[1]  permits    [string]   the number of available permits, in decimal
-- KEYS[2]  deadlines  [zset]     id of a held permit -> its deadline, in milliseconds since the epoch
-- ARGV[1]  ids        [string]   the ids of the hold, sixteen bytes each
-- ARGV[2]  count      [integer]  the hold count to keep; 0 returns the permits, any other count changes nothing
-- ARGV[3]  publish    [string]   PUBLISH or SPUBLISH
-- ARGV[4]  channel    [channel]  where waiters listen; gets the new number of available permits when it is positive
-- returns  [integer]  1   released: all permits were held and are returned
--                     3   same: a count above 0 changes nothing
--                     0   gone: none of the permits was held
--                     -1  partly gone: some permits were missing; the remaining permits are returned
--                     -4  kind: a key is of another kind
-- example  KEYS seats {seats}:timeout  ARGV 0123456789abcdef 0 PUBLISH redisson_sc:{seats}  returns 1

local permits_key, deadlines_key = KEYS[1], KEYS[2]
local ids, count, publish, channel = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

local value = short_text(permits_key)
if type(value) == 'table' then
  local refusal = refuse_kind(value, permits_key)
  if refusal.err then
    return refusal
  end
  return -4
end
if value and not whole(value) then
  return -4
end
local held_in_all = redis.pcall('ZCARD', deadlines_key)
if type(held_in_all) == 'table' then
  local refusal = refuse_kind(held_in_all, deadlines_key)
  if refusal.err then
    return refusal
  end
  return -4
end
if count > 0 then
  return 3
end

local time = server_time()
local reaped = reap_permits(permits_key, deadlines_key, time)
local held, all = find_held(deadlines_key, ids, time)
local available = redis.call('GET', permits_key)
if available and reaped + #held > 0 and available + #held > 0 then
  redis.call(publish, channel, available + #held)
end
if #held > 0 then
  give_back(permits_key, deadlines_key, held)
end
if #held == #all then
  return 1
elseif #held == 0 then
  return 0
end
return -1
