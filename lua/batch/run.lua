-- Runs several scripts in order, as separate commands would. The shared code and the table `scripts`, with one function
-- for each script, precede this file.
--
-- KEYS[1]  keys  [any]     the keys of each call, call after call
-- ARGV[1]  plan  [string]   three characters for each call: the script's index, its number of keys and its number of arguments; '1' means 1,
--                           and each following ASCII character one more
-- ARGV[2]  args  [mixed]    the arguments of each call, call after call
-- returns  [array]          the reply of each call, in order; a failed call returns its error and does not affect the rest
-- example  KEYS stock:1001  ARGV 114 6f0c…:7 1 30000 -1  returns {{1, 30000, 0}}

local keys, args, plan, replies, key, arg = KEYS, ARGV, ARGV[1], {}, 0, 1

for call = 1, #plan / 3 do
  local script, of_key, of_arg = string.byte(plan, 3 * call - 2, 3 * call)
  of_key, of_arg = of_key - 48, of_arg - 48
  -- Both counts are far below the limit of unpack.
  local own_keys, own_args = {unpack(keys, key + 1, key + of_key)}, {unpack(args, arg + 1, arg + of_arg)}
  local done, reply = pcall(scripts[script - 48], own_keys, own_args)
  key, arg = key + of_key, arg + of_arg
  if not done and type(reply) ~= 'table' then
    -- Servers before 7.0 raise a string.
    reply = {err = reply}
  end
  -- A nil would truncate the array.
  replies[call] = reply or false
end
return replies
