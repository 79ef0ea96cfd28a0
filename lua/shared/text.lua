-- Prelude: reads a text that a lock writes. A longer one is an application's, and no more than its beginning is read.

-- The text of a key; false where the key is absent.
local function short_text(key)
  local text = redis.pcall('GETRANGE', key, 0, 256)
  if text == '' and redis.call('EXISTS', key) == 0 then
    return false
  end
  return text
end
