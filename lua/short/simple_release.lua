-- Fast path of `simple/release`: ends a hold.

-- A missing key reads as an empty string.
if ARGV[2] == '0' and redis.pcall('GETRANGE', KEYS[1], 0, 256) == ARGV[1] and redis.call('DEL', KEYS[1]) == 1 then
  return 1
end
