-- Prelude: parses numbers on the server, which anyone may have written. Lua's tonumber accepts nan, inf, 0x10, 1e3 and
-- blanks. Here a number is what Redis counts with: decimal, whole, and at most 2^53, so that Lua represents it exactly.

-- Returns the number, or nil.
local function whole(text)
  local number = tonumber(text)
  if number and number >= -9007199254740992 and number <= 9007199254740992
    and string.format('%.0f', number) == text and text ~= '-0' then
    return number
  end
  return nil
end

-- Returns the hold count, or 0.
local function hold_count(text)
  if text == '1' then
    -- The usual case.
    return 1
  end
  local count = whole(text)
  if count and count >= 1 and count <= 2147483647 then
    return count
  end
  return 0
end
