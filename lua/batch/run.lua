-- Runs several scripts one after the other, as if each had been sent by itself. In front of this file stand the code that they share, and a
-- table `scripts` of functions, one made of each script's own file.
--
-- KEYS[1]  keys  [any]     the keys of each call, call after call
-- ARGV[1]  calls  [mixed]  for each call: which of the scripts, how many keys and how many arguments it has, and these arguments
-- returns  [array]         the reply of each call, in order; a call that failed has its error in its place, and hinders no other
-- example  KEYS stock:1001  ARGV 1 1 4 6f0c…:7 1 30000 -1  returns {{1, 30000, 0}}

local keys, args, replies, key, arg = KEYS, ARGV, {}, 0, 0
local last = #args

while arg < last do
  local run, of_key, of_arg = scripts[tonumber(args[arg + 1])], tonumber(args[arg + 2]), tonumber(args[arg + 3])
  -- A call has few of either, far below the number that unpack can take.
  local own_keys, own_args = {unpack(keys, key + 1, key + of_key)}, {unpack(args, arg + 4, arg + 3 + of_arg)}
  local done, reply = pcall(run, own_keys, own_args)
  key, arg = key + of_key, arg + 3 + of_arg
  if not done and type(reply) ~= 'table' then
    -- Servers before 7.0 throw a text.
    reply = {err = reply}
  end
  -- A nil would end the array.
  replies[#replies + 1] = reply or false
end
return replies
