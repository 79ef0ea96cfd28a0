-- Returns whether the latch is open. An open latch admits all waiters and has no holder. Read-only.
--
-- KEYS[1]  latch      [string]   the remaining count, in decimal; absent means 0
-- ARGV[1]  not_after  [integer]  0 or more requests the server's time; -1 does not read the clock
-- returns  [array]    {1, left, time}  open: the count is 0
--                     {0, left, time}  closed; left is -1, because the opening time is unknown
--                     {-4, kind}       the key is of another kind, named by kind
-- where    left is ten years, because an open latch stays open for its waiters; time is the server's time in milliseconds,
--          or 0 if not read
-- example  KEYS parts  ARGV -1  returns {1, 315360000000, 0}

local latch_key = KEYS[1]
local not_after = tonumber(ARGV[1])

local value = short_text(latch_key)
if type(value) == 'table' then
  return refuse_kind(value, latch_key)
end
if value and not whole(value) then
  return {-4, 'string that is no number'}
end

local time = 0
if not_after >= 0 then
  time = server_time()
end
if whole(value or '0') > 0 then
  return {0, -1, time}
end
return {1, 315360000000, time}
