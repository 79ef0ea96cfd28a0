-- Short way of `fair/release`: it ends a hold, and tells the next one of its turn.

-- Ends the hold. The answer is the reply, or nil if the long way has to be taken.
local function release_shortly(keys, args)
  local stored = args[2] == '0' and redis.pcall('HGET', keys[1], args[1])
  if type(stored) ~= 'string' then
    return nil
  end
  local plain = read_plain(keys, args[3], nil, -1)
  if not plain then
    return nil
  elseif plain.length == 0 then
    if plain.sweeps then
      return nil
    elseif plain.offer then
      redis.call('HDEL', keys[4], 'o', 'ot')
    end
    redis.call('PEXPIRE', keys[4], plain.idle)
  else
    if has_missed(plain) or redis.call('ZSCORE', keys[3], args[1]) or keep_plain(keys, plain, plain.head, plain.tail) > 0 then
      return nil
    end
    wake_plain(keys, plain, args[4], args[5])
  end
  -- The lock is freed last: a user who may not publish, or not change the queue, has released nothing when the server says so.
  redis.call('DEL', keys[1])
  return 1
end

do
  local reply = release_shortly(KEYS, ARGV)
  if reply then
    return reply
  end
end
