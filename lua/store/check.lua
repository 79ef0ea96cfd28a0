-- Registers a fencing token for a value in another store, and returns whether the token is admitted.
--
-- KEYS[1]  fence  [hash]     the register: token, owner, and the number of the owner's last write
-- ARGV[1]  token  [integer]  the fencing token of the hold, from 1 to 2^53
-- ARGV[2]  owner  [string]   the hold
-- ARGV[3]  keep   [integer]  the lifetime of the register in milliseconds; 0 for no expiry
-- returns  [array]  {1}               admitted
--                   {0, registered}   stale: a greater token was registered
--                   {-1, registered}  duplicate: the token is registered for another owner
--                   {-4, kind}        the register is not a hash
-- example  KEYS leasehold:1:fence:{balance}  ARGV 34 6f0c…:7 0  returns {1}

local fence_key = KEYS[1]
local token, owner, keep = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])

local known = redis.pcall('HMGET', fence_key, 'token', 'owner')
if known.err then
  return refuse_kind(known, fence_key)
end
local refusal = admit_token(fence_key, known, token, owner)
if refusal then
  return refusal
end
keep_register(fence_key, keep)
return {1}
