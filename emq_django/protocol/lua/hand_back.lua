--[[ hand_back: return the jobs of a worker that is gone, by token
  state    active -> pending, its lane, schedule or dead
  KEYS[1]  active    zset, score = lease end (ms)
  KEYS[2]  pending   zset, all scores 0
  KEYS[3]  base      emq:{q}:, the root of rows, schedule, dead and the lanes' keys
  ARGV[1]  losses    a job that lost its worker this often is buried; 0 never
  ARGV[2]  pause     from its second loss a job returns through schedule, one to two times so many ms
                     later; 0: at once
  ARGV[3]  events    1 publishes "stalled" for each run that counts as lost, with what follows
  ARGV[4+] triples   id, token, and 1 where the run began and counts as lost, 0 where it did not;
                     at most 300 triples
  returns  for each triple 1 handed back | 2 buried | 0 not held by that token, nothing was written
  errors   EMQARG
  clock    server TIME
  source   ours: what release and reap do, for several jobs at once ]]
-- include sweep
-- include lease
-- include events
-- include clock

local losses, pause = whole(ARGV[1], 0, 1000), whole(ARGV[2], 0, 4503599627370496)
if not losses or not pause then
  return redis.error_reply('EMQARG losses and pause must be whole numbers in range')
end
local base = KEYS[3]
redis.call('ZCARD', KEYS[2])
local failed = bury_read(base)
local now = server_ms()
local ids, held, verdicts = {}, {}, {}
for i = 4, #ARGV, 3 do
  local id = ARGV[i]
  local n = #verdicts + 1
  verdicts[n] = 0
  local row = redis.pcall('HMGET', base .. 'job:' .. id, 'attempts', 'state')
  if row[1] == ARGV[i + 1] and not lease_ended(row[2]) and redis.call('ZSCORE', KEYS[1], id) then
    ids[#ids + 1] = id
    held[#held + 1] = {n = n, lost = ARGV[i + 2] == '1'}
  end
end
local jobs, lanes = read_batch(base, ids, function() return true end, {'pending', 'schedule', 'dead'})

local dead = 0
for i, id in ipairs(ids) do
  local job, entry = jobs[i], held[i]
  -- A ghost or a damaged row is left to the reaper, which knows what to do with it.
  if job.kind == 'job' and redis.call('ZREM', KEYS[1], id) == 1 then
    local row = base .. 'job:' .. id
    leave_others(id, job)
    if job.lane then write_in_flight(job.lane, -1) end
    redis.call('HDEL', row, 'worker')
    if entry.lost then
      job.stalled = job.stalled + 1
      redis.call('HSET', row, 'stalled', decimal(job.stalled))
    end
    local state = 'dead'
    if entry.lost and losses > 0 and job.stalled >= losses then
      bury(base, id, job, 'stalled: the worker was lost ' .. decimal(job.stalled) .. ' times', now)
      dead = dead + 1
      verdicts[entry.n] = 2
    else
      local later = entry.lost and put_back_lost(base, id, job.stalled, now, pause, i / #ids)
      if not later then put_back(base, id, job) end
      state = later and 'scheduled' or 'pending'
      verdicts[entry.n] = 1
    end
    if entry.lost and ARGV[3] == '1' then publish_stalled(base, id, job.stalled, state) end
  end
end
for _, lane in pairs(lanes) do write_ring(lane) end
bury_count(base, failed, dead)
return verdicts
