--[[ reap: bring back jobs whose lease has ended, and bury those that lost it too often
  state    active -> pending, its lane, schedule or dead
  KEYS[1]  active    zset, score = lease end (Unix ms, server clock)
  KEYS[2]  pending   zset, all scores 0
  KEYS[3]  base      emq:{q}:, the root of rows, schedule, dead and the lanes' keys
  ARGV[1]  batch     ids at most, 1 to 1,000
  ARGV[2]  losses    a job that lost this many leases is buried; 0 never
  ARGV[3]  events    1 publishes "stalled" for each job whose lease ended, with what follows, and
                     "failed" for a damaged row
  ARGV[4]  pause     from its second loss a job returns through schedule, one to two times so many ms
                     later; 0: at once
  returns  {moved, dead, dropped (ids without a job), seen}
  errors   EMQARG
  clock    server TIME
  source   EchoMQ reap and its stalled sweep, in one ]]
-- include sweep
-- include lease
-- include events
-- include clock

local batch, losses = whole(ARGV[1], 1, 1000), whole(ARGV[2], 0, 1000)
local pause = whole(ARGV[4], 0, 4503599627370496)
if not batch or not losses or not pause then
  return redis.error_reply('EMQARG batch, losses and pause must be whole numbers in range')
end
local base = KEYS[3]
redis.call('ZCARD', KEYS[2])
local failed = bury_read(base)
local now = server_ms()
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', decimal(now), 'LIMIT', 0, batch)
local jobs, lanes = read_batch(
  base, ids, function(state) return not lease_ended(state) end, {'pending', 'schedule', 'dead'})

local moved, dead, dropped = 0, 0, 0
for i, id in ipairs(ids) do
  local job = jobs[i]
  local row = base .. 'job:' .. id
  redis.call('ZREM', KEYS[1], id)
  if job.kind ~= 'shadow' then
    leave_others(id, job)
    if job.lane and not lease_ended(job.state) then write_in_flight(job.lane, -1) end
  end
  if job.kind == 'job' then
    local stalled = job.stalled + 1
    redis.call('HSET', row, 'stalled', decimal(stalled))
    redis.call('HDEL', row, 'worker')
    local state = 'dead'
    if losses > 0 and stalled >= losses then
      bury(base, id, job, 'stalled: the worker was lost ' .. decimal(stalled) .. ' times', now)
      dead = dead + 1
    else
      local later = put_back_lost(base, id, stalled, now, pause, i / #ids)
      if not later then put_back(base, id, job) end
      state = later and 'scheduled' or 'pending'
      moved = moved + 1
    end
    if ARGV[3] == '1' then publish_stalled(base, id, stalled, state) end
  elseif job.kind == 'broken' then
    bury(base, id, job, BROKEN, now)
    dead = dead + 1
    if ARGV[3] == '1' then publish_death(base, id, BROKEN) end
  else
    if job.kind == 'ghost' then redis.call('DEL', row) else yield_to_other_place(base, id, job) end
    dropped = dropped + 1
  end
end
for _, lane in pairs(lanes) do write_ring(lane) end
bury_count(base, failed, dead)
return {moved, dead, dropped, #ids}
