-- Prelude: changes a counter once. The record stores the total change of the operation, so a copy of the command is
-- recognized. 0 means a change that was rolled back.

local function change_once(key, record_key, amount, memory)
  redis.call('SET', record_key, amount, 'PX', memory)
  local sum = redis.pcall('INCRBY', key, amount)
  if type(sum) == 'table' then
    -- A user without permission for INCRBY must not leave a record of a change that never happened.
    if type(redis.pcall('DEL', record_key)) == 'table' then
      return redis.error_reply('ERR the change was recorded, and INCRBY and DEL are refused')
    end
  end
  return sum
end
