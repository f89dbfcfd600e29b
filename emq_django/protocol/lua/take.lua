--[[ take: hand several jobs over, from the flat set and the ring in turn, within the ceilings
  state    pending -> active
  KEYS[1]  pending   zset, all scores 0
  KEYS[2]  active    zset, score = lease end (Unix ms, server clock); one deadline for all
  KEYS[3]  base      emq:{q}:, the root of rows, meta, limiter, dead, lanes and the ring
  ARGV[1]  lease     ms, > 0
  ARGV[2]  limit     jobs at most, 1 to 1,000
  ARGV[3]  worker    the incarnation that goes into the row's mark, beside the time taken; empty
                     leaves no mark
  ARGV[4]  turn      ring or flat: which of the two is asked first
  ARGV[5]  sources   both | flat | ring
  ARGV[6]  losses    a job that lost this many leases is buried; 0 never
  ARGV[7]  alone     1: a suspect, a job that lost a lease before, is handed over by itself; the batch
                     ends before it, or with it
  ARGV[8]  events    1 publishes "stalled" for a job found to have lost its worker, with what follows,
                     and "failed" for one that is buried as cancelled or damaged
  returns  {ms for which the rate is used up, or 0; a list of {id, payload, attempts, lane or '',
            failures, stalled}}
  errors   EMQARG
  clock    server TIME
  source   ours, after EchoMQ's flat, lane, weighted and batch claims ]]
-- include rows
-- include leave
-- include lease
-- include bury
-- include events
-- include ceilings
-- include clock

local lease = whole(ARGV[1], 1, 4503599627370496)
local limit = whole(ARGV[2], 1, 1000)
local losses = whole(ARGV[6], 0, 1000)
if not lease or not limit or not losses then
  return redis.error_reply('EMQARG lease, limit and losses must be whole numbers in range')
end
local base = KEYS[3]
if redis.call('HEXISTS', base .. 'meta', 'paused') == 1 then return {0, {}} end
-- All keys that a step below may write are of the right type, or the script ends here.
redis.call('ZCARD', KEYS[1])
redis.call('ZCARD', base .. 'schedule')
redis.call('HLEN', base .. 'glimit')
redis.call('HLEN', base .. 'gactive')
redis.call('HLEN', base .. 'dj:turns')
redis.call('SCARD', base .. 'paused')
redis.call('LLEN', base .. 'ring')
redis.call('LLEN', base .. 'wake')
local weighted = redis.call('HLEN', base .. 'gweight') > 0
local failed = bury_read(base)
local ceilings = read_ceilings(base, redis.call('ZCARD', KEYS[2]))
if ceilings.room < limit then limit = ceilings.room end
if limit < 1 then return {ceilings.wait_ms, {}} end
local now = server_ms()

local taken, deaths = {}, 0
local flat_left, ring_left = ARGV[5] ~= 'ring', ARGV[5] ~= 'flat'
local batch_ends = false
local events = ARGV[8] == '1'

-- Whether this job is a suspect that has to wait for the next call; one that has not ends the batch.
local function comes_later(job)
  if ARGV[7] ~= '1' or job.kind ~= 'job' then return false end
  if job.stalled == 0 and not lost_by_worker(job) then return false end
  batch_ends = true
  return #taken > 0
end

-- Takes an id out of its set (the first write: a full server can still be emptied) and leases it.
local function hand_over(set, id, job, lane)
  local row = base .. 'job:' .. id
  redis.call('ZREM', set, id)
  if lane and set == lane.key then lane.waiting = lane.waiting - 1 end
  if is_running(KEYS[2], id, job) then
    job.kind = 'running'
    return
  end
  if job.kind == 'ghost' then
    redis.call('DEL', row)
    return
  end
  leave_before_claim(base, id, job, lane)
  if job.kind == 'broken' or job.cancelled then
    local reason = job.cancelled and CANCELLED or BROKEN
    bury(base, id, job, reason, now)
    deaths = deaths + 1
    if events then publish_death(base, id, reason) end
    return
  end
  if lost_by_worker(job) then
    job.stalled = job.stalled + 1
    redis.call('HSET', row, 'stalled', decimal(job.stalled))
    local dies = losses > 0 and job.stalled >= losses
    if dies then
      bury(base, id, job, 'stalled: the worker was lost ' .. decimal(job.stalled) .. ' times', now)
      deaths = deaths + 1
    end
    if events then publish_stalled(base, id, job.stalled, dies and 'dead' or 'active') end
    if dies then return end
  end
  local attempts = redis.call('HINCRBY', row, 'attempts', 1)
  redis.call('HSET', row, 'state', 'active')
  if ARGV[3] ~= '' then
    redis.call('HSET', row, 'worker', ARGV[3] .. ':' .. decimal(attempts), 'taken', decimal(now))
  end
  redis.call('ZADD', KEYS[2], now + lease, id)
  if lane then write_in_flight(lane, 1) end
  taken[#taken + 1] = {
    id, redis.call('HGET', row, 'payload'), attempts, lane and lane.group or '',
    decimal(job.failures), decimal(job.stalled),
  }
end

local function take_flat()
  local id = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  if not id then return false end
  local job = read_row(base .. 'job:' .. id)
  local lane = job.kind == 'job' and job.group and not is_running(KEYS[2], id, job)
    and read_lane(base, job.group)
  if lane and not lane.broken then
    -- Another speaker put a lane's job here: it goes home, so that its lane's limit holds.
    redis.call('ZREM', KEYS[1], id)
    redis.call('ZADD', lane.key, 0, id)
    lane.waiting = redis.call('ZCARD', lane.key)
    write_ring(lane)
    ring_left = ARGV[5] ~= 'flat'
  elseif not comes_later(job) then
    hand_over(KEYS[1], id, job, lane or nil)
  end
  return true
end

-- A lane of weight w is served w times before the next one's turn; how often it was lives between
-- calls in dj:turns, for such lanes only.
local function turn_is_over(group)
  local weight = weighted and whole(redis.call('HGET', base .. 'gweight', group), 1, 1000) or 1
  if weight == 1 then return true end
  local served = read_counter(base .. 'dj:turns', group) + 1
  if served >= weight then
    redis.call('HDEL', base .. 'dj:turns', group)
    return true
  end
  write_counter(base .. 'dj:turns', group, served)
  return false
end

local function take_ring()
  local group = redis.call('LINDEX', base .. 'ring', 0)
  if not group then return false end
  local lane = read_lane(base, group)
  if servable(lane) then
    local id = redis.call('ZRANGE', lane.key, 0, 0)[1]
    local job = read_row(base .. 'job:' .. id)
    if comes_later(job) then return true end
    hand_over(lane.key, id, job, lane)
    -- The lane that serves a job counts it; a row that names another one would leak the slot.
    if job.kind == 'job' and job.group ~= group then
      redis.call('HSET', base .. 'job:' .. id, 'group', group)
    end
    -- A lane that leaves the ring leaves it from the head, where it is found at once.
    if servable(lane) and turn_is_over(group) then
      redis.call('LMOVE', base .. 'ring', base .. 'ring', 'LEFT', 'RIGHT')
    end
  end
  write_ring(lane)
  if weighted and not lane.on_ring then redis.call('HDEL', base .. 'dj:turns', group) end
  return true
end

local ring_turn = ARGV[4] == 'ring'
-- Ghosts, emptied lanes and jobs that go home cost a look; 100 of them end the call early.
for _ = 1, limit + 100 do
  if #taken == limit or not (flat_left or ring_left) then break end
  if batch_ends and #taken > 0 then break end
  if ring_turn and ring_left or not flat_left then
    ring_left = take_ring()
  else
    flat_left = take_flat()
  end
  ring_turn = not ring_turn
end
bury_count(base, failed, deaths)
write_rate(base, ceilings, #taken)
return {0, taken}
