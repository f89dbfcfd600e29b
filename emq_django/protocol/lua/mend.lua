--[[ mend: find ids without a row and rows in no set, and put them right where that is asked for
  state    a row in no set -> where its state says: pending or its lane, scheduled, active or dead;
            an id without a row leaves its sets
  KEYS[1]  base      emq:{q}:, the root of the sets, the rows and the lanes' keys
  ARGV[1]  fix       1 puts right what can be | 0 only looks
  ARGV[2]  lane      a lane whose waiting set may hold the ids, or empty
  ARGV[3+] ids       at most 500
  returns  one per id, in order: fine | ghost (in a set without a row) | orphan (a row in no set) |
            husk (a row without payload in no set) | double (in two sets) | damaged | absent
  errors   EMQARG
  clock    server TIME
  source   ours ]]
-- include rows
-- include lanes
-- include known_lanes
-- include clock

local fix, base = ARGV[1] == '1', KEYS[1]
if #ARGV > 502 then return redis.error_reply('EMQARG 500 ids at most') end
for _, key in ipairs({'glimit', 'gactive', 'gweight'}) do redis.call('HLEN', base .. key) end
for _, key in ipairs({'ring', 'wake'}) do redis.call('LLEN', base .. key) end
redis.call('SCARD', base .. 'paused')
local SETS = {'pending', 'active', 'schedule', 'dead'}
for _, set in ipairs(SETS) do redis.call('ZCARD', base .. set) end
local now = server_ms()

local function in_lane(group, id)
  local score = redis.pcall('ZSCORE', base .. 'g:' .. group .. ':pending', id)
  return type(score) == 'string'
end

local lanes
local function holders(id, job)
  local found = {}
  for _, set in ipairs(SETS) do
    if redis.call('ZSCORE', base .. set, id) then found[#found + 1] = base .. set end
  end
  local looked = {}
  local function look(group)
    if not group or group == '' or looked[group] then return end
    looked[group] = true
    if in_lane(group, id) then found[#found + 1] = base .. 'g:' .. group .. ':pending' end
  end
  look(job.group)
  look(ARGV[2])
  -- A row may name another lane than the one that holds it: before it counts as lost, all are asked.
  if #found == 0 and job.hash then
    lanes = lanes or known_lanes(base, 1000)
    for _, group in ipairs(lanes) do look(group) end
  end
  return found
end

-- Where the state says. A job that ran goes back under a lease that has ended: the next sweep then
-- counts the loss and returns it; its lane still counts it as in flight. A due time that is lost is now.
local PLACE = {active = 'active', scheduled = 'schedule', dead = 'dead'}
local function put_right(id, job)
  local set = PLACE[job.state]
  if set then
    redis.call('ZADD', base .. set, set == 'dead' and 0 or decimal(now), id)
  elseif job.group then
    local lane = read_lane(base, job.group)
    if lane.broken then return end
    redis.call('HSET', base .. 'job:' .. id, 'state', 'pending')
    lane.waiting = lane.waiting + redis.call('ZADD', lane.key, 0, id)
    write_ring(lane)
  else
    redis.call('HSET', base .. 'job:' .. id, 'state', 'pending')
    redis.call('ZADD', base .. 'pending', 0, id)
  end
end

local function drop(id, found)
  for _, set in ipairs(found) do
    redis.call('ZREM', set, id)
    local group = string.match(string.sub(set, #base + 1), '^g:(.*):pending$')
    if group then write_ring(read_lane(base, group)) end
  end
  redis.call('DEL', base .. 'job:' .. id)
end

local function mend_one(id)
  local row = base .. 'job:' .. id
  local job = read_row(row)
  local found = holders(id, job)
  if job.kind == 'broken' then return 'damaged' end
  if #found > 1 and job.kind == 'job' then return 'double' end
  if job.kind == 'job' and #found == 1 then return 'fine' end
  if job.state == 'awaiting_children' and #found == 0 then return 'fine' end  -- a parent, in no set
  if job.kind == 'job' then
    if fix then put_right(id, job) end
    return 'orphan'
  end
  local there = redis.call('EXISTS', row) == 1
  if #found == 0 and not there then return 'absent' end
  if fix then drop(id, found) end
  return #found > 0 and 'ghost' or 'husk'
end

local answers = {}
for i = 3, #ARGV do answers[#answers + 1] = mend_one(ARGV[i]) end
return answers
