-- Short way of `fenced_fair/acquire`: it takes a free lock, gives the hold a place, or leaves it the one that it has.

do
  local last = short_text(KEYS[5])
  -- The long way refuses a token of another kind, and one that none can follow.
  if type(last) ~= 'table' and not refuse_token(last) then
    local reply, time = acquire_shortly(KEYS, ARGV)
    if time then
      -- The token first: a token without a grant is only a gap.
      local token = next_token(KEYS[5], last)
      return complete(grant_hold(KEYS[1], {hold = ARGV[1], lease = ARGV[3]}), time, token)
    elseif reply then
      return reply
    end
  end
end
