-- Fast path of `fair/beat`: records the heartbeat of a process, and leaves the queue of a held lock unchanged.

-- Returns the reply, or nil for the full script.
local function beat_shortly(keys, args)
  local client, front = args[1], args[2]
  local left = redis.call('PTTL', keys[1])
  local plain = left > -2 and read_plain(keys, args[3], client, left)
  if not plain or plain.length == 0 then
    return nil
  end
  local lock = redis.pcall('HMGET', keys[1], front, plain.holder)
  if lock.err then
    return nil
  end
  local gone = front ~= '' and not lock[1] and not redis.call('ZSCORE', keys[3], front)
  redis.call('HSET', keys[4], mark_of('p', client), string.format('%.0f', plain.now))
  if keep_plain(keys, plain, plain.head, plain.tail) > 0 then
    return nil
  end
  if plain.offer then
    redis.call('HDEL', keys[4], 'o', 'ot')
  end
  return {gone and 0 or 1, math.max(left, -1), plain.now, process_of(plain.head) == client and 1 or 0, lock[2] and 0 or 1}
end

do
  local reply = beat_shortly(KEYS, ARGV)
  if reply then
    return reply
  end
end
