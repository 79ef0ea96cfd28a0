-- Prelude: the server's clock, in milliseconds since the epoch. Scripts never use a client's clock.

local function server_time()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
