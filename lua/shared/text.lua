-- Prelude: reads a lock's string. A longer string belongs to an application, so the script reads only its start.

-- Returns the string, or false for a missing key.
local function short_text(key)
  local text = redis.pcall('GETRANGE', key, 0, 256)
  if text == '' and redis.call('EXISTS', key) == 0 then
    return false
  end
  return text
end
