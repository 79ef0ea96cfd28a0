-- Writes who a client is, and which locks it holds and waits for, or writes it again so that it stays.
--
-- KEYS[1]  client       [hash]     host, pid, application, since, up, within, locks and written of the client, with a time to live
-- ARGV[1]  host         [string]   the machine that it runs on
-- ARGV[2]  pid          [integer]  its process there
-- ARGV[3]  application  [string]   what the application calls itself; may be empty
-- ARGV[4]  since        [integer]  when the client was built, in milliseconds since the epoch
-- ARGV[5]  up           [integer]  for how long it has been up, in milliseconds by its own clock
-- ARGV[6]  within       [string]   the holds of other clients that end only after it, with spaces between; may be empty
-- ARGV[7]  locks        [string]   the locks that it holds and waits for, as one text; may be empty
-- ARGV[8]  lifetime     [integer]  milliseconds after which the record goes away unless it is written again, at least 1
-- returns  [integer]  1   written
--                     -4  kind: the key is not a hash
-- example  KEYS leasehold:1:client:6f0c…  ARGV web-3 4711 orders 1800000000000 65000 6f0d…:3 lw1500;0;7;0:5:stock 30000  returns 1

local client_key = KEYS[1]
local host, pid, application, since = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local up, within, locks, lifetime = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8])

local present = redis.pcall('HLEN', client_key)
if type(present) == 'table' then
  local refusal = refuse_kind(present, client_key)
  if refusal.err then
    return refusal
  end
  return -4
end

redis.call('HSET', client_key, 'host', host, 'pid', pid, 'application', application, 'since', since, 'up', up,
  'within', within, 'locks', locks, 'written', string.format('%.0f', server_time()))
local set = redis.pcall('PEXPIRE', client_key, lifetime)
if type(set) == 'table' then
  -- A user who may not set a time to live must not leave a record without one.
  redis.call('DEL', client_key)
  return set
end
return 1
