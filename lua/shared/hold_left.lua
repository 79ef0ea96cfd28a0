-- Prelude: the remaining time of a reader of a read-write lock.
--
-- A native reader has its deadline in the index of native readers. Only that deadline counts, because old JVMs renew
-- every reader's hold keys. A foreign reader lives as long as one of its hold keys. This prelude builds the names of
-- other readers' hold keys like Redisson, in the lock's hash slot.

local function hold_key_of(key, reader, index)
  if string.find(key, '{', 1, true) then
    return key .. ':' .. reader .. ':rwlock_timeout:' .. index
  end
  return '{' .. key .. '}:' .. reader .. ':rwlock_timeout:' .. index
end

-- Returns the remaining milliseconds of a reader's hold, 0 or less after its expiry.
local function hold_left(key, readers_key, reader, time)
  local deadline = redis.call('ZSCORE', readers_key, reader)
  if deadline then
    return tonumber(deadline) - time
  end
  local left = 0
  -- No reader enters ten thousand times. The limit protects the server from a forged count.
  for index = math.min(hold_count(redis.call('HGET', key, reader)), 10000), 1, -1 do
    left = math.max(left, redis.call('PTTL', hold_key_of(key, reader, index)))
  end
  return left
end
