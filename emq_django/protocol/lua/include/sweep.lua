-- include rows
-- include lanes
-- include bury
-- Two passes over a batch of ids: all rows and lanes are read before the first write, so that a
-- damaged one can't leave another job half moved. Lanes are read once and their ring rule is
-- written once, however many of the ids are theirs.
--
-- Another speaker's extend, delay or retry can put an id into two sets at once. The row's state then
-- says which one holds it by right. `is_ours` tells that for the swept set: a job that it holds
-- leaves the others; of one that it does not hold (a shadow) only the entry in the swept set goes. The
-- swept set is KEYS[1], which may be a lane.
local STATES = {pending = 'pending', active = 'active', schedule = 'scheduled', dead = 'dead'}

local function read_batch(base, ids, is_ours, elsewhere)
  redis.call('HLEN', base .. 'glimit')
  redis.call('HLEN', base .. 'gactive')
  local jobs, lanes = {}, {}
  for i, id in ipairs(ids) do
    local job = read_row(base .. 'job:' .. id)
    if job.group and lanes[job.group] == nil then lanes[job.group] = read_lane(base, job.group) end
    job.lane = job.group and lanes[job.group]
    if job.kind == 'job' and job.lane and job.lane.broken then job.kind = 'broken' end
    job.others = {}
    for _, set in ipairs(elsewhere) do
      if redis.call('ZSCORE', base .. set, id) then
        job.others[#job.others + 1] = base .. set
        job.place = job.place == job.state and job.place or STATES[set]
      end
    end
    local elsewhere_too = job.kind == 'job' and job.lane and job.lane.key ~= KEYS[1]
    if elsewhere_too and redis.call('ZSCORE', job.lane.key, id) then
      job.others[#job.others + 1] = job.lane.key
      job.place = job.place == job.state and job.place or 'pending'
    end
    if job.kind == 'job' and job.place and not is_ours(job.state) then job.kind = 'shadow' end
    jobs[i] = job
  end
  return jobs, lanes
end

local function leave_others(id, job)
  for _, set in ipairs(job.others) do
    local left = redis.call('ZREM', set, id)
    if job.lane and set == job.lane.key then job.lane.waiting = job.lane.waiting - left end
  end
end

local function yield_to_other_place(base, id, job)
  redis.call('HSET', base .. 'job:' .. id, 'state', job.place)
end

-- A job that lost its lease more than once returns through the schedule where a pause is asked for:
-- later by the pause and a share of it, each job of a batch by another share.
local function put_back_lost(base, id, stalled, now, pause, share)
  if pause == 0 or stalled < 2 then return false end
  redis.call('HSET', base .. 'job:' .. id, 'state', 'scheduled')
  redis.call('ZADD', base .. 'schedule', now + pause + math.floor(pause * share), id)
  return true
end

local function put_back(base, id, job, ...)  -- with further fields and values of its row
  redis.call('HSET', base .. 'job:' .. id, 'state', 'pending', ...)
  if job.lane then
    job.lane.waiting = job.lane.waiting + redis.call('ZADD', job.lane.key, 0, id)
  else
    redis.call('ZADD', base .. 'pending', 0, id)
  end
end
