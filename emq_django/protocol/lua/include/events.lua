-- include decimal
-- A job's event for listeners, as flat JSON of strings. Ids that another speaker made up may be any
-- bytes; what is not ASCII would make the JSON invalid. pcall: the work is done by now, and a user
-- who may not publish on this channel must not be told that it failed.
local function publish(base, event, id, extra)
  local message = {event = event, job = (string.gsub(id, '[\128-\255]', '?'))}
  for name, value in pairs(extra or {}) do message[name] = value end
  redis.pcall('PUBLISH', base .. 'events', cjson.encode(message))
end

-- A job that lost its worker, so often by now; `state` is what it is next.
local function publish_stalled(base, id, stalled, state)
  publish(base, 'stalled', id, {stalled = decimal(stalled), state = state})
end

-- A job that is buried although no run of it failed.
local function publish_death(base, id, reason)
  publish(base, 'failed', id, {error = reason, state = 'dead'})
end
