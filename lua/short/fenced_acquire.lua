-- Fast path of `fenced/acquire`: grants a free lock.

if ARGV[2] == '1' and ARGV[4] == '-1' and redis.call('EXISTS', KEYS[1]) == 0 then
  local last = short_text(KEYS[2])
  -- The full script refuses a token of another kind, and a token without a successor.
  if type(last) ~= 'table' and not refuse_token(last) then
    -- Write the token first: a token without a grant only leaves a gap.
    local token = next_token(KEYS[2], last)
    return give_lock(KEYS[1], ARGV[1], ARGV[3]) or {1, tonumber(ARGV[3]), 0, token}
  end
end
