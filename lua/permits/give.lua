-- Returns permits by their ids, for any caller, with a result for each id.
--
-- KEYS[1]  permits    [string]   the number of available permits, in decimal
-- KEYS[2]  deadlines  [zset]     id of a held permit -> its deadline, in milliseconds since the epoch
-- ARGV[1]  ids        [string]   the ids, sixteen bytes each
-- ARGV[2]  publish    [string]   PUBLISH or SPUBLISH
-- ARGV[3]  channel    [channel]  where waiters listen; gets the new number of available permits when it is positive
-- returns  [array]    {1, given, ...}  for each id, in order: 1 returned, 0 missing or expired
--                     {-4, kind}       a key is of another kind, named by kind
-- example  KEYS seats {seats}:timeout  ARGV 0123456789abcdeffedcba9876543210 PUBLISH redisson_sc:{seats}  returns {1, 1, 0}

local permits_key, deadlines_key = KEYS[1], KEYS[2]
local ids, publish, channel = ARGV[1], ARGV[2], ARGV[3]

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

local time = server_time()
local reaped = reap_permits(permits_key, deadlines_key, time)
local held, all = find_held(deadlines_key, ids, time)
local reply, given, distinct = {1}, {}, {}
for i = 1, #held do
  if not given[held[i]] then
    given[held[i]] = true
    distinct[#distinct + 1] = held[i]
  end
end
for i = 1, #all do
  reply[i + 1] = given[all[i]] and 1 or 0
  -- Return a duplicate id once.
  given[all[i]] = nil
end

local available = redis.call('GET', permits_key)
if available and reaped + #distinct > 0 and available + #distinct > 0 then
  redis.call(publish, channel, available + #distinct)
end
if #distinct > 0 then
  give_back(permits_key, deadlines_key, distinct)
end
return reply
