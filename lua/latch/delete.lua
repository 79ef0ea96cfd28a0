-- Deletes a latch. A missing latch is open, so the script notifies all waiters, as the last count does.
--
-- KEYS[1]  latch    [string]   the remaining count, in decimal
-- KEYS[2]  record   [string]   exists if an earlier copy of this operation succeeded
-- ARGV[1]  memory   [integer]  the lifetime of the record in milliseconds
-- ARGV[2]  publish  [string]   PUBLISH or SPUBLISH
-- ARGV[3]  channel  [channel]  where waiters listen; gets the message 0
-- returns  [integer]  1   removed
--                     2   removed before (a duplicate of a successful command)
--                     0   absent: there is no latch
--                     -4  kind: the key is not a counter
-- example  KEYS parts leasehold:1:op:{parts}:6f0c…:7  ARGV 600000 PUBLISH redisson_countdownlatch__channel__{parts}  returns 1

local latch_key, record_key = KEYS[1], KEYS[2]
local memory, publish, channel = tonumber(ARGV[1]), ARGV[2], ARGV[3]

local value = short_text(latch_key)
if type(value) == 'table' then
  local refusal = refuse_kind(value, latch_key)
  if refusal.err then
    return refusal
  end
  return -4
end
if value and not whole(value) then
  return -4
end
if redis.call('EXISTS', record_key) == 1 then
  return 2
elseif not value then
  return 0
end

redis.call(publish, channel, '0')
redis.call('SET', record_key, value, 'PX', memory)
local deleted = redis.pcall('DEL', latch_key)
if type(deleted) == 'table' then
  -- A user without permission for DEL must not leave a record without its change.
  redis.call('PEXPIRE', record_key, 0)
  return deleted
end
return 1
