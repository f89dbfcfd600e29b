--[[ promote: move scheduled jobs that are due to pending or their lane
  state    scheduled -> pending (a damaged row -> dead)
  KEYS[1]  schedule  zset, score = due time (Unix ms)
  KEYS[2]  pending   zset, all scores 0
  KEYS[3]  base      emq:{q}:, the root of rows, dead and the lanes' keys
  ARGV[1]  batch     ids at most, 1 to 1,000
  ARGV[2]  events    1 publishes "failed" for a damaged row
  returns  {moved, dead, dropped (ids without a job), seen}
  errors   EMQARG
  clock    server TIME
  source   EchoMQ promote ]]
-- include sweep
-- include events
-- include clock

local batch = whole(ARGV[1], 1, 1000)
if not batch then return redis.error_reply('EMQARG batch must be a whole number from 1 to 1000') end
local base = KEYS[3]
redis.call('ZCARD', KEYS[2])
local failed = bury_read(base)
local now = server_ms()
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', decimal(now), 'LIMIT', 0, batch)
local jobs, lanes = read_batch(
  base, ids, function(state) return state == 'scheduled' end, {'active', 'pending', 'dead'})

local moved, dead, dropped = 0, 0, 0
for i, id in ipairs(ids) do
  local job = jobs[i]
  redis.call('ZREM', KEYS[1], id)
  if job.kind ~= 'shadow' then leave_others(id, job) end
  if job.kind == 'job' then
    put_back(base, id, job)
    moved = moved + 1
  elseif job.kind == 'broken' then
    bury(base, id, job, BROKEN, now)
    dead = dead + 1
    if ARGV[2] == '1' then publish_death(base, id, BROKEN) end
  else
    if job.kind == 'ghost' then
      redis.call('DEL', base .. 'job:' .. id)
    else
      yield_to_other_place(base, id, job)
    end
    dropped = dropped + 1
  end
end
for _, lane in pairs(lanes) do write_ring(lane) end
bury_count(base, failed, dead)
return {moved, dead, dropped, #ids}
