-- Returns the unexpired holders of a read-write lock. Read-only.
--
-- KEYS[1]  lock     [hash]  mode -> read or write, reader -> count, writer:write -> count; it expires with its longest hold
-- KEYS[2]  readers  [zset]  native readers -> deadline, in the server's milliseconds
-- also     [string]  the hold keys of a JVM's readers: only the fields of the lock name these readers, so no caller can declare the keys
-- returns  [array]  {0}         the lock is free
--                   {1, mode, hold, count, left, ...}  mode is read or write; then field, count and remaining time of each hold, a writer's
--                               field with :write at its end; left is -1 if the key has no time to live
--                   {-4, kind}  the key is of another kind, named by kind
-- example  KEYS s leasehold:1:rw_readers:{s}  returns {1, "read", "6f0c…:7", "2", 29640}

local lock_key, readers_key = KEYS[1], KEYS[2]

local mode = redis.pcall('HGET', lock_key, 'mode')
if type(mode) == 'table' then
  return refuse_kind(mode, lock_key)
end
if not mode then
  if redis.call('EXISTS', lock_key) == 1 then
    return {-4, 'hash'}
  end
  return {0}
end

local too_many = {-4, 'read-write lock of more than 10000 holds'}
if redis.call('HLEN', lock_key) > 10001 then
  -- Bound the work, because the script blocks all other clients.
  return too_many
end
local reply = {1, mode}
local time, lock_left, looks = server_time(), redis.call('PTTL', lock_key), 20000
local fields = redis.call('HGETALL', lock_key)
for i = 1, #fields, 2 do
  local writes = string.sub(fields[i], -6) == ':write'
  local left = 0
  if writes then
    left = lock_left
  elseif fields[i] ~= 'mode' then
    looks = looks - math.max(1, math.min(hold_count(fields[i + 1]), 10000))
    if looks < 0 then
      return too_many
    end
    left = hold_left(lock_key, readers_key, fields[i], time)
  end
  if writes or left > 0 then
    reply[#reply + 1] = fields[i]
    reply[#reply + 1] = fields[i + 1]
    reply[#reply + 1] = left
  end
end
if #reply == 2 then
  return {0}
end
return reply
