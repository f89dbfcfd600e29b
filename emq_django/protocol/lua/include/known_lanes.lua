-- The lanes of a queue, at most `most`. A lane at its limit is not on the ring and an idle one may
-- only have a limit, so all five places that name lanes are looked at; each read is bounded.
local function known_lanes(base, most)
  local lanes, known = {}, {}
  local function note(group)
    if not known[group] and #lanes < most then
      known[group] = true
      lanes[#lanes + 1] = group
    end
  end
  local function scan(command, key, step)
    local cursor = '0'
    repeat
      local part = redis.call(command, key, cursor, 'COUNT', most)
      cursor = part[1]
      for i = 1, #part[2], step do note(part[2][i]) end
    until cursor == '0' or #lanes >= most
  end
  for _, group in ipairs(redis.call('LRANGE', base .. 'ring', 0, most - 1)) do note(group) end
  scan('SSCAN', base .. 'paused', 1)
  for _, key in ipairs({'gactive', 'glimit', 'gweight'}) do scan('HSCAN', base .. key, 2) end
  return lanes
end
