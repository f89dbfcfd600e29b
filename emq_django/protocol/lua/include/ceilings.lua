-- include counters
-- A queue's ceilings, from its meta hash: `concurrency` jobs in flight, and `max` jobs started in each
-- `window_ms` (1,000 where it is not set). What was started is counted in `limiter`, which lives as
-- long as the window.
local function read_ceilings(base, active)
  local meta = redis.call('HMGET', base .. 'meta', 'concurrency', 'max', 'window_ms')
  local ceilings = {room = 9007199254740991, wait_ms = 0}
  local concurrency = whole(meta[1], 0, 9007199254740991)
  if concurrency then ceilings.room = math.max(concurrency - active, 0) end
  ceilings.max = whole(meta[2], 0, 9007199254740991)
  if ceilings.max then
    ceilings.window_ms = whole(meta[3], 1, 4503599627370496) or 1000
    ceilings.left_ms = redis.call('PTTL', base .. 'limiter')
    local used = redis.pcall('GET', base .. 'limiter')
    ceilings.used = ceilings.left_ms > 0 and whole(type(used) == 'string' and used, 0, 9007199254740991) or 0
    local left = math.max(ceilings.max - ceilings.used, 0)
    -- With a max of 0 no window's end helps: only another max does.
    if left == 0 and ceilings.max > 0 then ceilings.wait_ms = ceilings.left_ms end
    if left < ceilings.room then ceilings.room = left end
  end
  return ceilings
end

local function write_rate(base, ceilings, started)
  if not ceilings.max or started == 0 then return end
  local life_ms = ceilings.left_ms > 0 and ceilings.left_ms or ceilings.window_ms
  redis.call('SET', base .. 'limiter', decimal(ceilings.used + started), 'PX', decimal(life_ms))
end
