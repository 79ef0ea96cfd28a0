-- Prelude: gives a free lock that is a hash of hold counts to a hold. Servers before 7.2 take a third of a microsecond to make a text of a
-- number, for each number that a command has. So a `lease`, in milliseconds, stays the text that it was.

-- It is the last step of a grant, so that no error before it leaves a hold behind. The answer is that of a server that refuses the lease, or
-- nil.
local function give_lock(key, hold, lease)
  redis.call('HSET', key, hold, '1')
  local set = redis.pcall('PEXPIRE', key, lease)
  if type(set) == 'table' then
    -- A user who may not set a time to live must not leave a lock without one.
    if type(redis.pcall('DEL', key)) == 'table' then
      return redis.error_reply('ERR the lock was granted, and PEXPIRE and DEL are refused')
    end
    return set
  end
  return nil
end
