-- Prelude: reads a lock's string. A longer string belongs to an application, and only its beginning is read.

-- The string of a key; false if the key does not exist.
local function short_text(key)
  local text = redis.pcall('GETRANGE', key, 0, 256)
  if text == '' and redis.call('EXISTS', key) == 0 then
    return false
  end
  return text
end
