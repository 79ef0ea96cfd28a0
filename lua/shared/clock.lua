-- Prelude: the server's own clock, in milliseconds since the epoch. Clients' clocks decide nothing.

local function server_time()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
