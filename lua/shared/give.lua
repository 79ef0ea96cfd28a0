-- Prelude: grants a free lock that is a hash of hold counts. `lease`, in milliseconds, stays a string: servers before
-- 7.2 spend a third of a microsecond on each number they convert.

-- Performs the last step of a grant, so no earlier error leaves a hold behind. Returns an error if the server refuses
-- the lease, or nil.
local function give_lock(key, hold, lease)
  redis.call('HSET', key, hold, '1')
  local set = redis.pcall('PEXPIRE', key, lease)
  if type(set) == 'table' then
    -- A user without permission for PEXPIRE must not leave a lock without expiry.
    if type(redis.pcall('DEL', key)) == 'table' then
      return redis.error_reply('ERR the lock was granted, and PEXPIRE and DEL are refused')
    end
    return set
  end
  return nil
end
