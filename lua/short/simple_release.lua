-- Short way of `simple/release`: it ends a hold.

-- A key that does not exist reads as an empty text.
if ARGV[2] == '0' and redis.pcall('GETRANGE', KEYS[1], 0, 256) == ARGV[1] and redis.call('DEL', KEYS[1]) == 1 then
  return 1
end
