-- include rows
-- include leave
-- include lease
-- include unique
-- A job and all that is theirs off the queue, from whatever set: rows, logs, marks, counters.
local function discard_read(base)
  redis.call('ZCARD', base .. 'active')
  leave_read(base)
  redis.call('HLEN', base .. 'glimit')
  redis.call('HLEN', base .. 'gactive')
  redis.call('SCARD', base .. 'paused')
  redis.call('LLEN', base .. 'ring')
  redis.call('LLEN', base .. 'wake')
end

-- The job with what decides whether it may go: `there`, `active` (a worker holds it), `locked`.
local function read_standing(base, id)
  local row = base .. 'job:' .. id
  local job = read_row(row)
  job.active = redis.call('ZSCORE', base .. 'active', id) and not lease_ended(job.state)
  job.there = redis.call('EXISTS', row) == 1
  job.locked = job.there and redis.call('EXISTS', row .. ':lock') == 1
  return job
end

local function discard(base, id, job)
  local row = base .. 'job:' .. id
  local key = job.hash and redis.call('HGET', row, 'unique')
  local lane = job.group and read_lane(base, job.group)
  redis.call('ZREM', base .. 'active', id)
  leave(base, id, lane)
  if lane then
    if job.active then write_in_flight(lane, -1) end
    write_ring(lane)
  end
  free_unique(base, id, key)
  redis.call('DEL', row, row .. ':logs', row .. ':lock', row .. ':result', row .. ':done')
end
