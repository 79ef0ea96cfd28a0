-- Short way of `lock/acquire`: it takes a free lock.

if ARGV[2] == '1' and ARGV[4] == '-1' and redis.call('EXISTS', KEYS[1]) == 0 then
  return complete(grant_hold(KEYS[1], {hold = ARGV[1], lease = ARGV[3]}), 0, nil)
end
