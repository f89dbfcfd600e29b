-- include counters
-- The ring rule and the lane counters, in one place. A lane's facts are read before the first write
-- (a key of the wrong type stops the script in time), changed in Lua, and written once at the end.
local function read_lane(base, group)
  local lane = {base = base, group = group, key = base .. 'g:' .. group .. ':pending'}
  local waiting = redis.pcall('ZCARD', lane.key)
  lane.broken = type(waiting) ~= 'number'
  lane.waiting = lane.broken and 0 or waiting
  lane.limit = whole(redis.call('HGET', base .. 'glimit', group), 0, 9007199254740991)
  lane.active = read_counter(base .. 'gactive', group)
  lane.paused = redis.call('SISMEMBER', base .. 'paused', group) == 1
  lane.on_ring = redis.call('LPOS', base .. 'ring', group) ~= false
  redis.call('LLEN', base .. 'wake')
  return lane
end

local function servable(lane)
  return lane.waiting > 0 and not lane.paused and (not lane.limit or lane.active < lane.limit)
end

-- On the ring exactly when it can be served. A lane that joins wakes one parked consumer.
local function write_ring(lane)
  if servable(lane) then
    if not lane.on_ring then
      redis.call('RPUSH', lane.base .. 'ring', lane.group)
      redis.call('LPUSH', lane.base .. 'wake', '1')
      redis.call('LTRIM', lane.base .. 'wake', 0, 63)
      lane.on_ring = true
    end
  elseif lane.on_ring then
    redis.call('LREM', lane.base .. 'ring', 1, lane.group)
    lane.on_ring = false
  end
end

local function write_in_flight(lane, change)
  lane.active = lane.active + change
  if lane.active > 0 then
    write_counter(lane.base .. 'gactive', lane.group, lane.active)
  else
    lane.active = 0
    redis.call('HDEL', lane.base .. 'gactive', lane.group)
  end
end
