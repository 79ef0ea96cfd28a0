-- Returns the count of a latch. Read-only.
--
-- KEYS[1]  latch  [string]  the remaining count, in decimal
-- returns  [array]  {1, left}   closed: left is the remaining count
--                   {0}         open: the count is 0 or absent
--                   {-4, kind}  the key is of another kind, named by kind
-- example  KEYS parts  returns {1, 3}

local latch_key = KEYS[1]

local value = short_text(latch_key)
if type(value) == 'table' then
  return refuse_kind(value, latch_key)
end
if value and not whole(value) then
  return {-4, 'string that is no number'}
end
value = whole(value or '0')
if value > 0 then
  return {1, value}
end
return {0}
