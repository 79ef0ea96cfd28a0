-- Prelude: numbers that stand on the server, where anybody may have written them. Lua's tonumber takes nan, inf, 0x10, 1e3 and blanks
-- for numbers; here a number is what Redis itself counts with: a whole number in decimal, and at most 2^53, so that Lua has it exactly.

-- The number that a text is; nil where it is none.
local function whole(text)
  local number = tonumber(text)
  if number and number >= -9007199254740992 and number <= 9007199254740992
    and string.format('%.0f', number) == text and text ~= '-0' then
    return number
  end
  return nil
end

-- The hold count that a text is; 0 where it is none.
local function hold_count(text)
  if text == '1' then
    -- Most holds are entered once.
    return 1
  end
  local count = whole(text)
  if count and count >= 1 and count <= 2147483647 then
    return count
  end
  return 0
end
