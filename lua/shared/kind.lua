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
