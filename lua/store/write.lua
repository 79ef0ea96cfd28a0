-- Writes a guarded value after its register has admitted the fencing token. A hold numbers its writes, so a late
-- duplicate cannot undo a later write.
--
-- KEYS[1]  data      [string]   the guarded value
-- KEYS[2]  fence     [hash]     its register: token, owner, and the number of the owner's last write
-- ARGV[1]  token     [integer]  the fencing token of the writer's hold, from 1 to 2^53
-- ARGV[2]  owner     [string]   the writer's hold
-- ARGV[3]  keep      [integer]  the lifetime of the register in milliseconds; 0 for no expiry
-- ARGV[4]  number    [integer]  the number of the write within its hold, ascending from 1
-- ARGV[5]  value     [string]   the value
-- ARGV[6]  lifetime  [integer]  the lifetime of the value in milliseconds; 0 for no expiry
-- returns  [array]  {1}               written
--                   {2}               written before: this write or a later write of the hold (a duplicate)
--                   {0, registered}   stale: a greater token was registered
--                   {-1, registered}  duplicate: the token is registered for another owner
--                   {-4, kind}        the value is not a string, or the register not a hash
-- example  KEYS balance leasehold:1:fence:{balance}  ARGV 34 6f0c…:7 0 1 90 0  returns {1}

local data_key, fence_key = KEYS[1], KEYS[2]
local token, owner, keep = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local number, value, lifetime = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])

local kind = redis.call('TYPE', data_key).ok
if kind ~= 'string' and kind ~= 'none' then
  return {-4, kind}
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
if (whole(redis.call('HGET', fence_key, 'write')) or 0) >= number then
  return {2}
end
if lifetime > 0 then
  redis.call('SET', data_key, value, 'PX', lifetime)
else
  redis.call('SET', data_key, value)
end
redis.call('HSET', fence_key, 'write', number)
return {1}
