--[[ trim_dead: remove the oldest dead jobs beyond a number, and those that died before a moment
  state    dead -> (no row)
  KEYS[1]  dead      zset, all scores 0: in the order of the ids
  KEYS[2]  base      emq:{q}:, the root of the sets, the rows and the lanes' keys
  ARGV[1]  kept      so many stay, 1 to 2147483648
  ARGV[2]  before    Unix ms; what died before it goes
  ARGV[3]  first_id  the smallest id of that moment: a job that does not say when it died is taken to
                     have died when its id was made
  ARGV[4]  offset    place in the set to begin at
  ARGV[5]  batch     ids at most, 1 to 1,000
  returns  {removed, seen, more 0|1, first id removed, last id removed}; more: behind these there may
            be another one to remove. What is locked, held, or waits elsewhere too is left alone
  errors   EMQARG
  clock    none
  source   ours ]]
-- include discard
-- include whole

local kept, before = whole(ARGV[1], 1, 2147483648), whole(ARGV[2], 0, 9007199254740991)
local offset, batch = whole(ARGV[4], 0, 9007199254740991), whole(ARGV[5], 1, 1000)
if not kept or not before or not offset or not batch then
  return redis.error_reply('EMQARG kept, before, offset and batch must be whole numbers in range')
end
local base, first_id = KEYS[2], ARGV[3]
local over = redis.call('ZCARD', KEYS[1]) - kept
local ids = redis.call('ZRANGE', KEYS[1], offset, offset + batch - 1)
discard_read(base)

local function is_old(id, job)
  if job.hash then
    local died = redis.call('HGET', base .. 'job:' .. id, 'died')
    local at, token = string.match(died or '', '^(%d+):(%d+)$')
    if at and token == job.attempts then return tonumber(at) < before end
  end
  return id < first_id and string.match(id, '^JOB%w%w%w%w%w%w%w%w%w%w%w$')
end

local function is_elsewhere(id, job)
  local in_lane = job.group and redis.pcall('ZSCORE', base .. 'g:' .. job.group .. ':pending', id)
  return redis.call('ZSCORE', base .. 'pending', id) or redis.call('ZSCORE', base .. 'schedule', id)
    or type(in_lane) == 'string'
end

local removed, first, last = 0, '', ''
for i, id in ipairs(ids) do
  local job = read_standing(base, id)
  local is_dead = job.kind ~= 'job' or job.state == 'dead'
  if is_dead and not job.locked and not job.active and not is_elsewhere(id, job)
    and (offset + i <= over or is_old(id, job)) then
    discard(base, id, job)
    removed = removed + 1
    if first == '' then first = id end
    last = id
  end
end
local goes_on = #ids == batch and (offset + batch < over or ids[batch] < first_id)
return {removed, #ids, goes_on and 1 or 0, first, last}
