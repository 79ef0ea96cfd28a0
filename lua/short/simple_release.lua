-- Short way of `simple/release`: it ends a hold.

if ARGV[2] == '0' and redis.pcall('GETRANGE', KEYS[1], 0, 256) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return 1
end
