-- Counts a latch down, and opens the latch at zero. A duplicate changes nothing.
--
-- KEYS[1]  latch    [string]   the remaining count, in decimal; absent means 0
-- KEYS[2]  record   [string]   exists if an earlier copy of this operation succeeded
-- ARGV[1]  count    [integer]  the amount, at least 1
-- ARGV[2]  memory   [integer]  the lifetime of the record in milliseconds
-- ARGV[3]  publish  [string]   PUBLISH or SPUBLISH
-- ARGV[4]  channel  [channel]  where waiters listen; gets the message 0 when the latch opens
-- returns  [array]  {1, left}   counted
--                   {2, left}   counted before (a duplicate of a successful command)
--                   {0, left}   already open: nothing to count
--                   {-4, kind}  the key is of another kind, named by kind
-- where    left is the remaining count after the command; 0 is open
-- example  KEYS parts leasehold:1:op:{parts}:6f0c…:7  ARGV 1 600000 PUBLISH redisson_countdownlatch__channel__{parts}  returns {1, 2}

local latch_key, record_key = KEYS[1], KEYS[2]
local count, memory, publish, channel = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]

local value = short_text(latch_key)
if type(value) == 'table' then
  return refuse_kind(value, latch_key)
end
if value and not whole(value) then
  return {-4, 'string that is no number'}
end
value = math.max(0, whole(value or '0'))
if redis.call('EXISTS', record_key) == 1 then
  return {2, value}
elseif value == 0 then
  return {0, 0}
elseif value > count then
  local left = change_once(latch_key, record_key, -count, memory)
  if type(left) == 'table' then
    return left
  end
  return {1, left}
end

-- Publish first: if the server refuses to publish, the latch stays closed.
redis.call(publish, channel, '0')
redis.call('SET', record_key, -value, 'PX', memory)
local deleted = redis.pcall('DEL', latch_key)
if type(deleted) == 'table' then
  -- A user without permission for DEL must not leave a record without its change.
  redis.call('PEXPIRE', record_key, 0)
  return deleted
end
return {1, 0}
