-- Reads a guarded value after its register has admitted the fencing token. The first read registers the token, so
-- holders of older tokens can no longer write. Checking tokens at writes alone would still lose updates.
--
-- KEYS[1]  data   [string]   the guarded value
-- KEYS[2]  fence  [hash]     its register: token, owner, and the number of the owner's last write
-- ARGV[1]  token  [integer]  the fencing token of the reader's hold, from 1 to 2^53
-- ARGV[2]  owner  [string]   the reader's hold
-- ARGV[3]  keep   [integer]  the lifetime of the register in milliseconds; 0 for no expiry
-- returns  [array]  {1, value}        admitted
--                   {2}               admitted, but the value is missing
--                   {0, registered}   stale: a greater token was registered
--                   {-1, registered}  duplicate: the token is registered for another owner
--                   {-4, kind}        the value is not a string, or the register not a hash
-- example  KEYS balance leasehold:1:fence:{balance}  ARGV 34 6f0c…:7 0  returns {1, "100"}

local data_key, fence_key = KEYS[1], KEYS[2]
local token, owner, keep = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])

local value = redis.pcall('GET', data_key)
if type(value) == 'table' then
  return refuse_kind(value, data_key)
end
local known = redis.pcall('HMGET', fence_key, 'token', 'owner')
if known.err then
  return refuse_kind(known, fence_key)
end
local refusal = admit_token(fence_key, known, token, owner)
if refusal then
  return refusal
end
keep_register(fence_key, keep)
if not value then
  return {2}
end
return {1, value}
