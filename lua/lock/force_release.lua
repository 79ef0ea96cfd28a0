-- Ends the hold of a named holder for any caller, and notifies the waiters. The command names the holder, so a late
-- duplicate cannot end a later hold. A damaged lock with two fields keeps the other field.
--
-- KEYS[1]  lock     [hash]     hold -> count, with the lease as its time to live
-- ARGV[1]  holder   [string]   the field of the hold to end: uuid:number, with ~ for a hold that may linger, or a JVM's uuid:thread
-- ARGV[2]  publish  [string]   PUBLISH or SPUBLISH; SILENT if nobody listens (spin lock)
-- ARGV[3]  channel  [channel]  where waiters listen; gets the message 0 when the hold ends, after a 2 for a hold that may linger
-- returns  [integer]  1   released: the hold has ended, and the message was published unless SILENT
--                     0   absent: the lock is free
--                     -1  other: another hold has the lock
--                     -4  kind: the key is not a hash, or is a read-write lock
-- example  KEYS stock:1001  ARGV 6f0c…:7 PUBLISH redisson_lock__channel:{stock:1001}  returns 1

local lock_key = KEYS[1]
local holder, publish, channel = ARGV[1], ARGV[2], ARGV[3]

local present = redis.pcall('HEXISTS', lock_key, holder)
if type(present) == 'table' then
  local refusal = refuse_kind(present, lock_key)
  if refusal.err then
    return refusal
  end
  return -4
end

if present == 0 then
  if redis.call('EXISTS', lock_key) == 1 then
    return -1
  end
  return 0
end
if redis.call('HEXISTS', lock_key, 'mode') == 1 then
  return -4
end

-- Publish first: if the server refuses to publish, the hold is unchanged.
if publish ~= 'SILENT' then
  if string.sub(holder, -1) == '~' then
    redis.call(publish, channel, '2')
  end
  redis.call(publish, channel, '0')
end
redis.call('HDEL', lock_key, holder)
return 1
