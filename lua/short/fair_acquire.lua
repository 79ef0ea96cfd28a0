-- Fast path of `fair/acquire`: grants a free lock, queues the hold, or keeps its place.

do
  local reply, time = acquire_shortly(KEYS, ARGV)
  if time then
    return complete(grant_hold(KEYS[1], {hold = ARGV[1], lease = ARGV[3]}), time, nil)
  elseif reply then
    return reply
  end
end
