-- Returns the last fencing token of a fenced lock, held or free. Read-only.
--
-- KEYS[1]  token    [string]  the last fencing token, in decimal
-- returns  [array]  {0}         no grant yet
--                   {1, token}  the token of the last grant
--                   {-4, kind}  the key is of another kind, named by kind
-- example  KEYS redisson_lock_token:{stock:1001}  returns {1, "1800000000000000"}

local token_key = KEYS[1]

local token = short_text(token_key)
if type(token) == 'table' then
  return refuse_kind(token, token_key)
end
if not token then
  return {0}
end
return {1, token}
