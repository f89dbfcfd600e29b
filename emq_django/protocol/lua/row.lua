--[[ row: all of one job
  state    unchanged
  KEYS[1]  row       emq:{q}:job:<id>, hash; beside it <row>:done and <row>:result, the marks
  KEYS[2]  base      emq:{q}:, the root of the sets
  ARGV[1]  id        as the sets hold it
  ARGV[2]  bytes     field values above this size are reported by size only
  returns  {now ms, set that holds the id or '', score or '', TTL ms or -1, finished 0|1,
            number of fields, list of {name, size, value}}; no fields are listed above 64
  errors   EMQARG
  clock    server TIME
  source   ours ]]
-- include whole
-- include decimal
-- include clock

local most = whole(ARGV[2], 0, 1073741824)
if not most then return redis.error_reply('EMQARG bytes must be a whole number in range') end
local row, base, id = KEYS[1], KEYS[2], ARGV[1]

local holder, score = '', ''
local function look_in(name, key)
  local found = redis.pcall('ZSCORE', key, id)
  if type(found) == 'string' and holder == '' then holder, score = name, found end
end
for _, name in ipairs({'active', 'pending', 'schedule', 'dead'}) do look_in(name, base .. name) end

local count, fields = redis.pcall('HLEN', row), {}
if type(count) ~= 'number' then count = 0 end
if count > 0 then
  local group = redis.call('HGET', row, 'group')
  if group then look_in('lane', base .. 'g:' .. group .. ':pending') end
  if count <= 64 then
    for _, name in ipairs(redis.call('HKEYS', row)) do
      local size = redis.call('HSTRLEN', row, name)
      fields[#fields + 1] = {name, size, size <= most and redis.call('HGET', row, name)}
    end
  end
end
local finished = redis.call('EXISTS', row .. ':done', row .. ':result') > 0 and 1 or 0
return {decimal(server_ms()), holder, score, redis.call('PTTL', row), finished, count, fields}
