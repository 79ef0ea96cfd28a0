-- Prelude: checks whether a missing hold can be granted. Returns the refusal, or nil for a free lock.

local function refuse_grant(key, ask, time)
  if ask.count > 1 then
    return {-2, 0, time}
  elseif redis.call('EXISTS', key) == 1 then
    if redis.call('HEXISTS', key, 'mode') == 1 then
      return {-4, 'read-write lock'}
    end
    return {0, redis.call('PTTL', key), time}
  elseif ask.not_after > 0 and time > ask.not_after then
    return {-3, 0, time}
  end
  return nil
end
