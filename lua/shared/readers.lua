-- Prelude: the readers of a read-write lock, living and dead.
--
-- A reader whose time is over counts for nothing, and a script that sees it removes it.

local function forget_reader(key, readers_key, reader)
  redis.call('HDEL', key, reader)
  redis.call('ZREM', readers_key, reader)
  redis.call('DEL', hold_key_of(key, reader, 1))
end

-- Removes the readers of ours whose deadline has passed, at most a thousand a call. True where nobody is left of the lock but its mode.
local function reap_readers(key, readers_key, time)
  local over = redis.call('ZRANGEBYSCORE', readers_key, '-inf', time, 'LIMIT', 0, 1000)
  for _, reader in ipairs(over) do
    forget_reader(key, readers_key, reader)
  end
  return #over > 0 and redis.call('HLEN', key) == 1
end

-- Removes every expired reader. Returns the number of live readers without `except`, and the longest and the shortest
-- of their times. A script blocks the server, so this inspects no more than a thousand readers, and ten thousand hold
-- keys of JVMs. Beyond that readers live as long as the lock, and the longest time is false.
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
