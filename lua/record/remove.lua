-- Removes the record of a client that shuts down.
--
-- KEYS[1]  client  [hash]  host, pid, application, since, up, within, note, locks and written of the client, with a time to live
-- returns  [integer]  1   removed
--                     0   there was no record
--                     -4  kind: the key is not a hash
-- example  KEYS leasehold:1:client:6f0c…  returns 1

local client_key = KEYS[1]

local present = redis.pcall('HLEN', client_key)
if type(present) == 'table' then
  local refusal = refuse_kind(present, client_key)
  if refusal.err then
    return refusal
  end
  return -4
end
if present == 0 then
  return 0
end
redis.call('DEL', client_key)
return 1
