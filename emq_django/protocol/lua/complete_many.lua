--[[ complete_many: end several jobs that their holder has finished
  state    active (or wherever a sweep has put it since) -> (no row), or its row stays as a result
  KEYS[1]  active    zset, score = lease end (ms)
  KEYS[2]  base      emq:{q}:, the root of the rows, the other sets, the lanes, dj:finished and
                     metrics:completed
  ARGV[1]  events    1 publishes "completed" for each job
  ARGV[2+] entries   at most 1,000 of: id, token, ms for which <row>:done tells of it (0: no mark), and
                     how many arguments follow that say what it leaves: 0 for nothing, else the
                     complete script's ttl (> 0), bytes, kept, record and pairs
  returns  one per entry, in order: 1 completed | 0 there is no such row | -1 another claim holds it
  errors   EMQARG
  clock    server TIME where a result is kept
  source   EchoMQ complete, for a batch ]]
-- include lanes
-- include lease
-- include unique
-- include results
-- include events
-- include clock

local entries, keeps, at = {}, false, 2
while at <= #ARGV do
  local more = whole(ARGV[at + 3], 0, 1000)
  local entry = {
    id = ARGV[at], token = ARGV[at + 1], done = whole(ARGV[at + 2], 0, 4503599627370496),
    first = at + 8, last = at + 3 + (more or 0),
  }
  if not entry.done or not more or more % 2 == 1 or more == 2 or entry.last > #ARGV then
    return redis.error_reply('EMQARG done must be a whole number of ms, and what follows as many as said')
  end
  if more > 0 then
    keeps = true
    entry.ttl = whole(ARGV[at + 4], 1, 4503599627370496)
    entry.bytes = whole(ARGV[at + 5], 0, 9007199254740991)
    entry.kept = whole(ARGV[at + 6], 0, 9007199254740991)
    entry.record = ARGV[at + 7]
    if not entry.ttl or not entry.bytes or not entry.kept then
      return redis.error_reply('EMQARG ttl, bytes and kept must be whole numbers')
    end
  end
  entries[#entries + 1] = entry
  at = entry.last + 1
end
if #entries > 1000 then return redis.error_reply('EMQARG 1000 jobs at most') end
local base = KEYS[2]
for _, set in ipairs({'active', 'pending', 'schedule', 'dead'}) do redis.call('ZCARD', base .. set) end
redis.call('HLEN', base .. 'glimit')
redis.call('HLEN', base .. 'gactive')
local before = read_counter(base .. 'metrics:completed', 'count')
local now = 0
if keeps then
  redis.call('ZCARD', base .. 'dj:finished')
  now = server_ms()
end
local rows, lanes = {}, {}
for i, entry in ipairs(entries) do
  local fields = redis.pcall(
    'HMGET', base .. 'job:' .. entry.id, 'attempts', 'group', 'unique', 'state')
  if fields.err then fields = {} end
  rows[i] = fields
  local group = fields[2]
  if group and lanes[group] == nil then lanes[group] = read_lane(base, group) end
end

local verdicts, completed, ended = {}, 0, {}
for i, entry in ipairs(entries) do
  local id, fields = entry.id, rows[i]
  local row = base .. 'job:' .. id
  if not fields[1] or ended[id] then
    verdicts[i] = 0
  elseif fields[1] ~= entry.token then
    verdicts[i] = -1
  else
    local was_active = redis.call('ZREM', KEYS[1], id)
    redis.call('ZREM', base .. 'pending', id)
    redis.call('ZREM', base .. 'schedule', id)
    redis.call('ZREM', base .. 'dead', id)
    local lane = fields[2] and lanes[fields[2]]
    if lane then
      if not lane.broken then lane.waiting = lane.waiting - redis.call('ZREM', lane.key, id) end
      if was_active == 1 and not lease_ended(fields[4]) then write_in_flight(lane, -1) end
    end
    free_unique(base, id, fields[3])
    if entry.ttl then
      add_error(row, entry.record)
      keep_result(base, id, entry.ttl, entry.bytes, entry.kept, now, ARGV, entry.first, entry.last)
    else
      redis.call('DEL', row, row .. ':logs')
    end
    redis.call('DEL', row .. ':lock')
    if entry.done > 0 then redis.call('SET', row .. ':done', '1', 'PX', decimal(entry.done)) end
    if ARGV[1] == '1' then publish(base, 'completed', id) end
    ended[id] = true
    completed = completed + 1
    verdicts[i] = 1
  end
end
for _, lane in pairs(lanes) do write_ring(lane) end
if completed > 0 then write_counter(base .. 'metrics:completed', 'count', before + completed) end
return verdicts
