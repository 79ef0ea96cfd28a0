-- Sets the count of an open latch. A stored count of 0 or less means open.
--
-- KEYS[1]  latch    [string]   the remaining count, in decimal
-- KEYS[2]  record   [string]   exists if an earlier copy of this operation succeeded
-- ARGV[1]  count    [integer]  the count, from 1 to 2147483647
-- ARGV[2]  memory   [integer]  the lifetime of the record in milliseconds
-- ARGV[3]  publish  [string]   PUBLISH or SPUBLISH
-- ARGV[4]  channel  [channel]  where waiters listen; gets the message 1, which a JVM understands as closed
-- returns  [array]  {1, left}   set
--                   {2, left}   set before (a duplicate of a successful command)
--                   {0, left}   refused: the latch is already closed
--                   {-4, kind}  the key is of another kind, named by kind
-- where    left is the remaining count after the command
-- example  KEYS parts leasehold:1:op:{parts}:6f0c…:7  ARGV 3 600000 PUBLISH redisson_countdownlatch__channel__{parts}  returns {1, 3}

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
elseif value > 0 then
  return {0, value}
end

redis.call(publish, channel, '1')
redis.call('SET', latch_key, count)
redis.call('SET', record_key, count, 'PX', memory)
return {1, count}
