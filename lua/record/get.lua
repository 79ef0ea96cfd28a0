-- Returns a client's identity, and the locks that it holds or waits for. Read-only.
--
-- KEYS[1]  client  [hash]  host, pid, application, since, up, within, note, locks and written of the client, with a time to live
-- returns  [array]  {1, left, host, pid, application, since, up, within, note, age, locks}  left is the time to live in milliseconds; up is the
--                               uptime of the client at the last write, age the time since that write, -1 if unknown;
--                               within has names of holds, separated by spaces; note and locks are strings
--                   {0}         the client has no record
--                   {-4, kind}  the key is of another kind, named by kind
-- example  KEYS leasehold:1:client:6f0c…  returns {1, 29640, "web-3", "4711", "orders", "1800000000000", -1, "", "", -1, ""}

local client_key = KEYS[1]

local fields = redis.pcall('HMGET', client_key, 'host', 'pid', 'application', 'since', 'up',
  'within', 'note', 'locks', 'written')
if fields.err then
  return refuse_kind(fields, client_key)
end
if not (fields[1] and fields[2] and fields[3] and fields[4]) then
  return {0}
end
local age, written = -1, tonumber(fields[9])
if written then
  age = math.max(0, server_time() - written)
end
local up = tonumber(fields[5]) or -1
return {
  1, redis.call('PTTL', client_key), fields[1], fields[2], fields[3], fields[4], up, fields[6] or '', fields[7] or '',
  age, fields[8] or '',
}
