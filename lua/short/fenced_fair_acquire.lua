-- Short way of `fenced_fair/acquire`: it takes a free lock, gives the hold a place, or leaves it the one that it has.

-- The long way refuses a token of another kind.
if type(redis.pcall('GET', KEYS[6])) ~= 'table' then
  local reply, time = acquire_shortly(KEYS, ARGV)
  if time then
    -- The token first: a token without a grant is only a gap.
    local token = next_token(KEYS[6])
    return complete(grant_hold(KEYS[1], {hold = ARGV[1], lease = ARGV[3]}), time, token)
  elseif reply then
    return reply
  end
end
