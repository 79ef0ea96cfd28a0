-- Prelude: parses numbers from untrusted keys. Lua's tonumber accepts nan, inf, 0x10, 1e3 and blanks. This prelude
-- accepts only decimal integers, as Redis does, up to 2^53, which Lua represents exactly.

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
