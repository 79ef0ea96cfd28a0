-- Short way of `fair/acquire`: it takes a free lock, gives the hold a place, or leaves it the one that it has.

do
  local reply, time = acquire_shortly(KEYS, ARGV)
  if time then
    return complete(grant_hold(KEYS[1], {hold = ARGV[1], lease = ARGV[3]}), time, nil)
  elseif reply then
    return reply
  end
end
