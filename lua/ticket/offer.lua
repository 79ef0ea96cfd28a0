-- Offers a hold to another process: stores the secret of its ticket, and extends the lease to the life of the ticket.
-- The hold and its count stay until the adoption, which replaces the hold. A duplicate before the adoption changes
-- nothing. A duplicate after the adoption finds no hold.
--
-- KEYS[1]  lock    [hash]     hold -> count, with the lease as its time to live
-- KEYS[2]  ticket  [string]   secret:time of the offered hold, with the lease as its time to live
-- ARGV[1]  hold    [string]   the field of the hold: uuid:number
-- ARGV[2]  secret  [string]   random, of a fixed length, for one use
-- ARGV[3]  lease   [integer]  milliseconds, at least 1; an existing lease is never shortened
-- returns  [array]  {1, left, time}  offered
--                   {0, stored}      not offered: the hold count is not 1
--                   {-1, 0}          lost: the hold is missing
--                   {-4, kind}       the key is of another kind, named by kind
-- where    left is the remaining lease in milliseconds, stored the hold count, time the server's time of the offer in microseconds
-- example  KEYS stock:1001 leasehold:1:ticket:{stock:1001}  ARGV 6f0c…:7 c0ffee 30000  returns {1, 30000, 1800000000000000}

local lock_key, ticket_key = KEYS[1], KEYS[2]
local hold, secret, lease = ARGV[1], ARGV[2], ARGV[3]

local stored = redis.pcall('HGET', lock_key, hold)
if type(stored) == 'table' then
  return refuse_kind(stored, lock_key)
end
if not stored then
  return {-1, 0}
end
if stored ~= '1' then
  return {0, hold_count(stored)}
end

local now = redis.call('TIME')
local time = tonumber(now[1]) * 1000000 + tonumber(now[2])
local offered = redis.call('GETRANGE', ticket_key, 0, 256)
if string.sub(offered, 1, #secret) == secret then
  -- A duplicate. The ticket contains the time of the first offer.
  time = whole(string.sub(offered, #secret + 2)) or time
end
local left = math.max(redis.call('PTTL', lock_key), tonumber(lease))
-- Write the secret first: a server without memory refuses it, and the lease is unchanged.
redis.call('SET', ticket_key, string.format('%s:%.0f', secret, time), 'PX', left)
return {1, extend_lease(lock_key, lease), time}
