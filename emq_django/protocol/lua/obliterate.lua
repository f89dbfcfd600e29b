--[[ obliterate: remove one batch of a paused queue, and at last the queue itself
  state    any -> (no row)
  KEYS[1]  meta      hash, field paused
  KEYS[2]  base      emq:{q}:, the root of all keys of the queue
  ARGV[1]  force     1 also removes jobs that workers hold
  ARGV[2]  batch     ids at most, 1 to 1,000
  returns  1 call again | 0 nothing is left
  errors   EMQSTATE (not paused, or active jobs and no force) EMQARG
  clock    server TIME
  source   EchoMQ obliterate; lanes are found in all places that name one ]]
-- include whole
-- include decimal
-- include clock

local batch = whole(ARGV[2], 1, 1000)
if not batch then return redis.error_reply('EMQARG batch must be a whole number from 1 to 1000') end
local base = KEYS[2]
if redis.call('HEXISTS', KEYS[1], 'paused') == 0 then
  return redis.error_reply('EMQSTATE not_paused: pause the queue first')
end
if ARGV[1] ~= '1' and redis.call('ZCARD', base .. 'active') > 0 then
  return redis.error_reply('EMQSTATE active: workers hold jobs of this queue')
end

local now = server_ms()

local budget = batch
local function empty(set)
  local ids = redis.pcall('ZRANGE', set, 0, budget - 1)
  if ids.err then
    redis.call('DEL', set)  -- not a set of jobs
    return true
  end
  for _, id in ipairs(ids) do
    local row = base .. 'job:' .. id
    redis.call('ZREM', set, id)
    redis.call('DEL', row, row .. ':logs', row .. ':lock', row .. ':result', row .. ':done',
      row .. ':relayed', row .. ':dependencies', row .. ':processed', row .. ':failed', row .. ':unsuccessful')
  end
  budget = budget - #ids
  return budget > 0
end

for _, set in ipairs({'active', 'pending', 'schedule', 'dead', 'dj:finished'}) do
  if not empty(base .. set) then return 1 end
end

-- One lane after the other: its set is emptied, then its name leaves every place that names it.
local PLACES = {
  {'ring', 'LRANGE', 0, 0}, {'paused', 'SRANDMEMBER', 1}, {'glimit', 'HRANDFIELD', 1},
  {'gactive', 'HRANDFIELD', 1}, {'gweight', 'HRANDFIELD', 1},
}
for _, place in ipairs(PLACES) do
  local found = redis.pcall(place[2], base .. place[1], unpack(place, 3))
  if found.err then redis.call('DEL', base .. place[1]) end  -- of another type
end
local function some_lane()
  for _, place in ipairs(PLACES) do
    local found = redis.call(place[2], base .. place[1], unpack(place, 3))[1]
    if found then return found end
  end
end
local group = some_lane()
while group do
  if not empty(base .. 'g:' .. group .. ':pending') then return 1 end
  redis.call('LREM', base .. 'ring', 0, group)
  redis.call('SREM', base .. 'paused', group)
  redis.call('HDEL', base .. 'glimit', group)
  redis.call('HDEL', base .. 'gactive', group)
  redis.call('HDEL', base .. 'gweight', group)
  budget = budget - 1
  if budget <= 0 then return 1 end
  group = some_lane()
end

local names = redis.pcall('ZRANGE', base .. 'repeat', 0, budget - 1)
if names.err then
  redis.call('DEL', base .. 'repeat')
  names = {}
end
for _, name in ipairs(names) do
  redis.call('ZREM', base .. 'repeat', name)
  redis.call('DEL', base .. 'repeat:' .. name)
end
if #names == budget then return 1 end

redis.call('DEL', base .. 'wake', base .. 'metrics:completed', base .. 'metrics:failed',
  base .. 'metrics:completed:data', base .. 'metrics:failed:data', base .. 'flow:outbox',
  base .. 'limiter', base .. 'dj:turns', base .. 'dj:periodic', KEYS[1])
-- Counters carry their hour and their day in their names; older ones have expired.
for hour = math.floor(now / 3600000) - 20, math.floor(now / 3600000) do
  redis.call('DEL', base .. 'dj:minutes:' .. decimal(hour), base .. 'dj:depths:' .. decimal(hour))
end
for day = math.floor(now / 86400000) - 15, math.floor(now / 86400000) do
  redis.call('DEL', base .. 'dj:hours:' .. decimal(day), base .. 'dj:peaks:' .. decimal(day))
end
redis.call('UNLINK', base .. 'dj:unique')  -- may be large: freed beside the server's work
return 0
