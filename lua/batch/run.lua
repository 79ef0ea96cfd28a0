-- Runs several scripts one after the other, as if each had been sent by itself. In front of this file stand the code that they share, and a
-- table `scripts` of functions, one made of each script's own file.
--
-- KEYS[1]  keys  [any]     the keys of each call, call after call
-- ARGV[1]  calls  [mixed]  for each call: which of the scripts, how many keys and how many arguments it has, and these arguments
-- returns  [array]         the reply of each call, in order; a call that failed has its error in its place, and hinders no other
-- example  KEYS stock:1001  ARGV 1 1 4 6f0c…:7 1 30000 -1  returns {{1, 30000, 0}}

local replies, key, arg = {}, 0, 0

-- The next `count` values of a list behind `from`.
local function take(list, from, count)
  local taken = {}
  for i = 1, count do
    taken[i] = list[from + i]
  end
  return taken
end

while arg < #ARGV do
  local run, keys, args = scripts[tonumber(ARGV[arg + 1])], tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3])
  local done, reply = pcall(run, take(KEYS, key, keys), take(ARGV, arg + 3, args))
  key, arg = key + keys, arg + 3 + args
  if not done and type(reply) ~= 'table' then
    -- Servers before 7.0 throw a text.
    reply = {err = reply}
  end
  -- A nil would end the array.
  replies[#replies + 1] = reply or false
end
return replies
