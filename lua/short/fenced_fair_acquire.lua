-- Fast path of `fenced_fair/acquire`: grants a free lock, queues the hold, or keeps its place.

do
  local last = short_text(KEYS[5])
  -- The full script refuses a token of another kind, and a token without a successor.
  if type(last) ~= 'table' and not refuse_token(last) then
    local reply, time = acquire_shortly(KEYS, ARGV)
    if time then
      -- Write the token first: a token without a grant only leaves a gap.
      local token = next_token(KEYS[5], last)
      return complete(grant_hold(KEYS[1], {hold = ARGV[1], lease = ARGV[3]}), time, token)
    elseif reply then
      return reply
    end
  end
end
