-- Adopts an offered hold: the adopter gets a hold of its own in place of the offered one and, with a kind that has tokens, a
-- greater fencing token. Of all calls with one ticket, one succeeds. A copy of it changes nothing, and completes what a
-- refused command left undone.
--
-- KEYS[1]  lock     [hash]     hold -> count, with the lease as its time to live
-- KEYS[2]  ticket   [string]   secret:time of the offered hold, with the lease as its time to live
-- KEYS[3]  marks    [hash]     heartbeats, arrivals and observations of JVMs; the lock again for a kind without a queue
-- KEYS[4]  token    [string]   the last fencing token, in decimal; the lock again for a kind without tokens
-- ARGV[1]  hold     [string]   the field of the adopter's hold: uuid:number
-- ARGV[2]  offered  [string]   the field of the offered hold: uuid:number
-- ARGV[3]  secret   [string]   secret:time of the ticket
-- ARGV[4]  lease    [integer]  milliseconds, at least 1; replaces the rest of the ticket's life. A copy never shortens a lease
-- returns  [array]  {1, left, token}  adopted
--                   {2, left, token}  held: the adopter has the hold (a copy of a command that succeeded)
--                   {0, 0}            spent: the hold was adopted before, or the ticket has expired
--                   {-1, 0}           lost: the offered hold is missing, or its count is not 1
--                   {-4, kind}        one of the keys is of another kind, named by kind
-- where    left is the remaining lease in milliseconds, token the fencing token in decimal, or 0 for a kind without tokens
-- example  KEYS s leasehold:1:ticket:{s} s redisson_lock_token:{s}  ARGV 6f0d…:3 6f0c…:7 c0ffee:1800000000000000 30000  returns {1, 30000, "1800000000000000"}

local lock_key, ticket_key, marks_key, token_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local hold, offered, secret, lease = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local stored = redis.pcall('HMGET', lock_key, hold, offered)
if stored.err then
  return refuse_kind(stored, lock_key)
end
local is_copy = stored[1]
-- With two fields, an adoption was refused halfway: the hold belongs to its adopter.
if not is_copy and (stored[2] ~= '1' or redis.call('HLEN', lock_key) ~= 1) then
  return {-1, 0}
end
local ticket = short_text(ticket_key)
if not is_copy and ticket ~= secret then
  return {0, 0}
end

local holder = false
if marks_key ~= lock_key then
  holder = redis.pcall('HGET', marks_key, 'h')
  if type(holder) == 'table' then
    return refuse_kind(holder, marks_key)
  end
end
local token = '0'
if token_key ~= lock_key then
  local last = short_text(token_key)
  if type(last) == 'table' then
    return refuse_kind(last, token_key)
  end
  local exhausted = refuse_token(last)
  if exhausted then
    return exhausted
  end
  -- The token first: a token without a grant is only a gap.
  token = is_copy and same_token(token_key, last) or next_token(token_key, last)
end

if holder == offered then
  redis.call('HSET', marks_key, 'h', hold)
end
if not is_copy then
  redis.call('HSET', lock_key, hold, '1')
end
if stored[2] then
  redis.call('HDEL', lock_key, offered)
end
local left = tonumber(lease)
if is_copy then
  left = extend_lease(lock_key, lease)
else
  redis.call('PEXPIRE', lock_key, lease)
end
if ticket == secret then
  redis.call('DEL', ticket_key)
end
if is_copy then
  return {2, left, token}
end
return {1, left, token}
