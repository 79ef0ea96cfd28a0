-- Prelude: changes a counter once. The record that it leaves says by how much the operation has changed the counter in all, so
-- that a copy of the command is known; 0 stands for a change that was taken back.

local function change_once(key, record_key, amount, memory)
  redis.call('SET', record_key, amount, 'PX', memory)
  local sum = redis.pcall('INCRBY', key, amount)
  if type(sum) == 'table' then
    -- A user who may not count must not leave a record that says that it was done.
    if type(redis.pcall('DEL', record_key)) == 'table' then
      return redis.error_reply('ERR the change was recorded, and INCRBY and DEL are refused')
    end
  end
  return sum
end
