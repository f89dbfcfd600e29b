-- The server's clock in whole ms. Called after all checks and before the first write: a user who
-- may not run TIME is then refused while nothing has changed.
local function server_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
