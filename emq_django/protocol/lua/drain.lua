--[[ drain: remove one batch of waiting jobs with their rows; call again while any are left
  state    pending, scheduled or dead -> (no row)
  KEYS[1]  set       pending, schedule, dead or a lane
  KEYS[2]  base      emq:{q}:, the root of the rows and the lanes' keys
  ARGV[1]  batch     ids at most, 1 to 1,000
  ARGV[2]  lane      branded id when the set is a lane, else empty
  returns  {removed, left in the set}
  errors   EMQARG
  clock    none
  source   EchoMQ drain and lane drain, in bounded steps ]]
-- include sweep
-- include lease
-- include unique

local batch = whole(ARGV[1], 1, 1000)
if not batch then return redis.error_reply('EMQARG batch must be a whole number from 1 to 1000') end
local base, group = KEYS[2], ARGV[2]
local ids = redis.call('ZRANGE', KEYS[1], 0, batch - 1)
local set = group ~= '' and 'pending' or string.sub(KEYS[1], #base + 1)
local elsewhere = {}
for _, other in ipairs({'active', 'pending', 'schedule', 'dead'}) do
  if base .. other ~= KEYS[1] then elsewhere[#elsewhere + 1] = other end
end
local jobs, lanes = read_batch(
  base, ids, function(state) return state == STATES[set] end, elsewhere)
-- An id that another speaker left in active as well is somebody's, whatever its row is: only its entry
-- here goes.
local held, keys = {}, {}
for i, id in ipairs(ids) do
  held[i] = redis.call('ZSCORE', base .. 'active', id) and not lease_ended(jobs[i].state)
  keys[i] = jobs[i].hash and redis.call('HGET', base .. 'job:' .. id, 'unique')
end
local left = redis.call('ZCARD', KEYS[1]) - #ids
if group ~= '' and not lanes[group] then lanes[group] = read_lane(base, group) end

for i, id in ipairs(ids) do
  local job = jobs[i]
  local row = base .. 'job:' .. id
  redis.call('ZREM', KEYS[1], id)
  if job.kind == 'shadow' then
    yield_to_other_place(base, id, job)
  elseif not held[i] then
    leave_others(id, job)
    free_unique(base, id, keys[i])
    redis.call('DEL', row, row .. ':logs', row .. ':lock', row .. ':result', row .. ':done')
  end
end
if group ~= '' then lanes[group].waiting = left end
for _, lane in pairs(lanes) do write_ring(lane) end
return {#ids, left}
