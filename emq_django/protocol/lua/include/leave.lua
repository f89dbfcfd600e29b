-- include lanes
-- Out of every set but active: another speaker's extend, delay or retry puts an id into two at once.
local function leave_read(base)
  for _, set in ipairs({'pending', 'schedule', 'dead'}) do redis.call('ZCARD', base .. set) end
end

local function leave(base, id, lane)
  for _, set in ipairs({'pending', 'schedule', 'dead'}) do redis.call('ZREM', base .. set, id) end
  if lane and not lane.broken then
    lane.waiting = lane.waiting - redis.call('ZREM', lane.key, id)
  end
end

-- Before a claim or a burial, which is then the one place that counts. A job that never was claimed is
-- in one set and saves the looks.
local function leave_before_claim(base, id, job, lane)
  if job.attempts ~= '0' then leave(base, id, lane) end
end
