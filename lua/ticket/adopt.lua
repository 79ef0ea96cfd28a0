-- Adopts an offered hold: deletes the secret of the ticket, and extends the lease. The hold, its count and its fencing token
-- stay. Of all calls with one ticket, one succeeds. A copy of it returns 0, so its caller must not trust a second reply.
--
-- KEYS[1]  lock    [hash]     hold -> count, with the lease as its time to live
-- KEYS[2]  ticket  [string]   secret:time of the offered hold, with the lease as its time to live
-- ARGV[1]  hold    [string]   the field of the hold: uuid:number
-- ARGV[2]  secret  [string]   secret:time of the ticket
-- ARGV[3]  lease   [integer]  milliseconds, at least 1; an existing lease is never shortened
-- returns  [array]  {1, left}   adopted; left is the remaining lease in milliseconds
--                   {0, 0}      spent: the hold was adopted before, or the ticket has expired
--                   {-1, 0}     lost: the hold is missing, or its count is not 1
--                   {-4, kind}  the key is of another kind, named by kind
-- example  KEYS stock:1001 leasehold:1:ticket:{stock:1001}  ARGV 6f0c…:7 c0ffee:1800000000000000 30000  returns {1, 30000}

local lock_key, ticket_key = KEYS[1], KEYS[2]
local hold, secret, lease = ARGV[1], ARGV[2], ARGV[3]

local stored = redis.pcall('HGET', lock_key, hold)
if type(stored) == 'table' then
  return refuse_kind(stored, lock_key)
end
if stored ~= '1' then
  return {-1, 0}
end
if short_text(ticket_key) ~= secret then
  return {0, 0}
end
-- The lease first: if the server refuses the deletion, nobody has adopted the hold, and the ticket is still good.
local left = extend_lease(lock_key, lease)
redis.call('DEL', ticket_key)
return {1, left}
