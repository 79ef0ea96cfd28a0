-- Prelude: changes a counter once. The record stores the total change of the operation, which identifies a duplicate. 0
-- means that the change was rolled back.

local function change_once(key, record_key, amount, memory)
  redis.call('SET', record_key, amount, 'PX', memory)
  local sum = redis.pcall('INCRBY', key, amount)
  if type(sum) == 'table' then
    -- A user without permission for INCRBY must not leave a record without its change.
    if type(redis.pcall('DEL', record_key)) == 'table' then
      return redis.error_reply('ERR the change was recorded, and INCRBY and DEL are refused')
    end
  end
  return sum
end
