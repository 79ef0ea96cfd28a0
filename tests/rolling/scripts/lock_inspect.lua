-- Prelude: tells a key of another kind from the lock that a script expects.
--
-- A first read goes through redis.pcall, so that a key of another type costs nothing until it is met. The refusal is the
-- flat array {-4, kind}: the type of the key, or "read-write lock" for a hash that carries Redisson's field `mode`.

local function refuse_kind(failure, key)
  if string.find(failure.err, 'WRONGTYPE', 1, true) then
    return {-4, redis.call('TYPE', key).ok}
  end
  return failure
end
-- Tells who holds the lock. It changes nothing.
--
-- KEYS[1]  lock  [hash]  hold -> count, with the lease as its time to live
-- returns  [array]  {0}                  nobody holds the lock
--                   {1, left, hold, count, ...}  left is the lease left in milliseconds, -1 where the key has no time to
--                                        live; then field and count of each hold (one, in a healthy lock)
--                   {-4, kind}           the key is of another kind, named by kind
-- example  KEYS stock:1001  returns {1, 29640, "6f0c…:7", "2"}

local lock_key = KEYS[1]

local fields = redis.pcall('HGETALL', lock_key)
if fields.err then
  return refuse_kind(fields, lock_key)
end
if #fields == 0 then
  return {0}
end

local reply = {1, redis.call('PTTL', lock_key)}
for i = 1, #fields, 2 do
  if fields[i] == 'mode' then
    return {-4, 'read-write lock'}
  end
  reply[i + 2] = fields[i]
  reply[i + 3] = fields[i + 1]
end
return reply
