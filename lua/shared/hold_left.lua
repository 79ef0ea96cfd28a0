-- Prelude: how long a reader of a read-write lock still holds it.
--
-- A reader of ours has its deadline in the index of native readers, and that alone counts, because old JVMs renew everybody's hold keys. Any
-- other reader lives as long as one of its hold keys.
-- Hold keys of readers that the caller did not name are put together here, as Redisson does: they are in the lock's hash slot.

local function hold_key_of(key, reader, index)
  if string.find(key, '{', 1, true) then
    return key .. ':' .. reader .. ':rwlock_timeout:' .. index
  end
  return '{' .. key .. '}:' .. reader .. ':rwlock_timeout:' .. index
end

-- Milliseconds that are left of a reader's hold; 0 or less where it is over.
local function hold_left(key, readers_key, reader, time)
  local deadline = redis.call('ZSCORE', readers_key, reader)
  if deadline then
    return tonumber(deadline) - time
  end
  local left = 0
  -- Nobody enters ten thousand times, and a number that somebody wrote by hand must not keep the server busy for ever.
  for index = math.min(hold_count(redis.call('HGET', key, reader)), 10000), 1, -1 do
    left = math.max(left, redis.call('PTTL', hold_key_of(key, reader, index)))
  end
  return left
end
