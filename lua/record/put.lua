-- Writes or refreshes a client's identity, and the locks that it holds or waits for.
--
-- KEYS[1]  client       [hash]     host, pid, application, since, up, within, note, locks and written of the client, with a time to live
-- ARGV[1]  host         [string]   the client's machine
-- ARGV[2]  pid          [integer]  the client's process
-- ARGV[3]  application  [string]   the application's name; may be empty
-- ARGV[4]  since        [integer]  the start of the client, in milliseconds since the epoch
-- ARGV[5]  up           [integer]  the client's uptime, in milliseconds of its own clock
-- ARGV[6]  within       [string]   the enclosing holds of other clients, which end after this client, separated by spaces; may be empty
-- ARGV[7]  note         [string]   the reason for the client's locks, for operators; may be empty
-- ARGV[8]  locks        [string]   the locks that it holds or waits for, as one string; may be empty
-- ARGV[9]  lifetime     [integer]  the lifetime of the record in milliseconds, at least 1; each write restarts it
-- returns  [integer]  1   written
--                     -4  kind: the key is not a hash
-- example  KEYS leasehold:1:client:6f0c…  ARGV web-3 4711 orders 1800000000000 65000 6f0d…:3 nightly-dump lw1500;0;7;0:5:stock 30000  returns 1

local client_key = KEYS[1]
local host, pid, application, since = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local up, within, note, locks = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local lifetime = tonumber(ARGV[9])

local present = redis.pcall('HLEN', client_key)
if type(present) == 'table' then
  local refusal = refuse_kind(present, client_key)
  if refusal.err then
    return refusal
  end
  return -4
end

redis.call('HSET', client_key, 'host', host, 'pid', pid, 'application', application, 'since', since, 'up', up,
  'within', within, 'note', note, 'locks', locks, 'written', string.format('%.0f', server_time()))
local set = redis.pcall('PEXPIRE', client_key, lifetime)
if type(set) == 'table' then
  -- Without permission for PEXPIRE, leave no record without expiry.
  redis.call('DEL', client_key)
  return set
end
return 1
