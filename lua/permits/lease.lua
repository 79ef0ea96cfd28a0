-- Returns the remaining lease of one permit. Read-only.
--
-- KEYS[1]  deadlines  [zset]    id of a held permit -> its deadline, in milliseconds since the epoch
-- ARGV[1]  id         [string]  the sixteen bytes of the permit
-- returns  [array]    {1, left}   held; left is the remaining lease in milliseconds, -1 without expiry
--                     {0}         the permit is not held, or has expired
--                     {-4, kind}  the key is of another kind, named by kind
-- example  KEYS {seats}:timeout  ARGV 0123456789abcdef  returns {1, 29640}

local deadlines_key = KEYS[1]
local id = ARGV[1]

local deadline = redis.pcall('ZSCORE', deadlines_key, id)
if type(deadline) == 'table' then
  return refuse_kind(deadline, deadlines_key)
end
if not deadline then
  return {0}
end
local left = tonumber(deadline) - server_time()
if left <= 0 then
  return {0}
elseif tonumber(deadline) >= 922337203685477 then
  return {1, -1}
end
return {1, left}
