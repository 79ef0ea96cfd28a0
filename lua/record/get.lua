-- Tells who a client is, and which locks it holds and waits for. It changes nothing.
--
-- KEYS[1]  client  [hash]  host, pid, application, since, up, within, locks and written of the client, with a time to live
-- returns  [array]  {1, left, host, pid, application, since, up, within, age, locks}  left is the time to live in milliseconds; up is how long
--                               the client had been up when it wrote the record, and age how long ago that was, -1 where it is not known;
--                               within are names of holds with spaces between; locks is one text
--                   {0}         there is no record of this client
--                   {-4, kind}  the key is of another kind, named by kind
-- example  KEYS leasehold:1:client:6f0c…  returns {1, 29640, "web-3", "4711", "orders", "1800000000000", -1, "", -1, ""}

local client_key = KEYS[1]

local fields = redis.pcall('HMGET', client_key, 'host', 'pid', 'application', 'since', 'up',
  'within', 'locks', 'written')
if fields.err then
  return refuse_kind(fields, client_key)
end
if not (fields[1] and fields[2] and fields[3] and fields[4]) then
  return {0}
end
local age, written = -1, tonumber(fields[8])
if written then
  age = math.max(0, server_time() - written)
end
local up = tonumber(fields[5]) or -1
return {
  1, redis.call('PTTL', client_key), fields[1], fields[2], fields[3], fields[4], up, fields[6] or '', age, fields[7] or '',
}
