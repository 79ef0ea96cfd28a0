-- Prelude: refuses a key of an unexpected kind.
--
-- The first read uses redis.pcall, so the usual case needs no extra check. The refusal is {-4, kind}:
-- the type of the key, or "read-write lock" for a hash with Redisson's field `mode`.

local function refuse_kind(failure, key)
  if string.find(failure.err, 'WRONGTYPE', 1, true) then
    return {-4, redis.call('TYPE', key).ok}
  end
  return failure
end
