-- Prelude: the readers of a read-write lock.
--
-- Expired readers do not count. Every script removes the expired readers that it finds.

local function forget_reader(key, readers_key, reader)
  redis.call('HDEL', key, reader)
  redis.call('ZREM', readers_key, reader)
  -- A server that refuses undeclared keys keeps the hold key until it expires.
  redis.pcall('DEL', hold_key_of(key, reader, 1))
end

-- Removes expired native readers, at most a thousand per call. Returns true if only the mode of the lock remains.
local function reap_readers(key, readers_key, time)
  local over = redis.call('ZRANGEBYSCORE', readers_key, '-inf', time, 'LIMIT', 0, 1000)
  for _, reader in ipairs(over) do
    forget_reader(key, readers_key, reader)
  end
  return #over > 0 and redis.call('HLEN', key) == 1
end

-- Removes every expired reader. Returns the number of live readers except `except`, and their longest and shortest
-- remaining times. A script blocks the server, so this inspects at most a thousand readers and ten thousand hold keys
-- of JVMs. Readers beyond these limits count as alive, and the longest time is false.
local function scan(key, readers_key, time, except)
  if redis.call('HLEN', key) > 1001 then
    return 1, false
  end
  local alive, longest, shortest, looks = 0, 0, nil, 10000
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    local field = fields[i]
    if field ~= 'mode' and field ~= except and string.sub(field, -6) ~= ':write' then
      looks = looks - math.max(1, math.min(hold_count(fields[i + 1]), 10000))
      if looks < 0 then
        return math.max(alive, 1), false, shortest
      end
      local left = hold_left(key, readers_key, field, time)
      if left > 0 then
        alive = alive + 1
        longest = math.max(longest, left)
        shortest = math.min(shortest or left, left)
      else
        forget_reader(key, readers_key, field)
      end
    end
  end
  return alive, longest, shortest
end
