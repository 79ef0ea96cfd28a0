-- Fast path of `lock/acquire`: grants a free lock.

if ARGV[2] == '1' and ARGV[4] == '-1' and redis.call('EXISTS', KEYS[1]) == 0 then
  return give_lock(KEYS[1], ARGV[1], ARGV[3]) or {1, tonumber(ARGV[3]), 0}
end
