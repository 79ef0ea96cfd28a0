-- Returns the holder of the lock. Read-only.
--
-- KEYS[1]  lock  [hash]  hold -> count, with the lease as its time to live
-- returns  [array]  {0}                  the lock is free
--                   {1, left, hold, count, ...}  left is the remaining lease in milliseconds, -1 if the key has no time to
--                                        live; then field and count of each hold (a healthy lock has one hold)
--                   {-4, kind}           the key is of another kind, named by kind; a hash of more than eight fields is not a lock
-- example  KEYS stock:1001  returns {1, 29640, "6f0c…:7", "2"}

local lock_key = KEYS[1]

local holds = redis.pcall('HLEN', lock_key)
if type(holds) == 'table' then
  return refuse_kind(holds, lock_key)
elseif holds == 0 then
  return {0}
elseif redis.call('HEXISTS', lock_key, 'mode') == 1 then
  return {-4, 'read-write lock'}
elseif holds > 8 then
  return {-4, 'hash'}
end

local reply = {1, redis.call('PTTL', lock_key)}
for i, word in ipairs(redis.call('HGETALL', lock_key)) do
  reply[i + 2] = word
end
return reply
