-- Returns the number of available permits. Read-only.
--
-- KEYS[1]  semaphore  [string]  the number of available permits, in decimal
-- returns  [array]    {1, available, left}  left is the time to live in milliseconds, -1 without expiry
--                     {0}                   the semaphore is missing
--                     {-4, kind}            the key is of another kind, named by kind
-- example  KEYS seats  returns {1, 10, -1}

local semaphore_key = KEYS[1]

local value = short_text(semaphore_key)
if type(value) == 'table' then
  return refuse_kind(value, semaphore_key)
end
if not value then
  return {0}
end
if not whole(value) then
  return {-4, 'string that is no number'}
end
return {1, whole(value), redis.call('PTTL', semaphore_key)}
