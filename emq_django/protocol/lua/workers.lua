--[[ workers: what the workers of one project last said about themselves
  state    unchanged
  KEYS[1]  workers   {emq}:dj:workers, zset, score = last beat (Unix ms, server clock)
  KEYS[2]  record    {emq}:dj:worker:, the root of the records; an incarnation follows
  ARGV[1]  limit     workers at most, 1 to 1,000; the last to beat come first
  ARGV[2]  prefix    the project's queue prefix; other projects' workers are left out
  ARGV[3+] fields    of each record
  returns  {now ms, workers of all projects in the list, rows}; a row is {incarnation, last beat, values}.
            A value is empty where it has more than 65,536 bytes. 1,000 entries are looked at.
  errors   EMQARG
  clock    server TIME
  source   ours ]]
-- include whole
-- include decimal
-- include clock

local limit = whole(ARGV[1], 1, 1000)
if not limit then return redis.error_reply('EMQARG limit must be a whole number from 1 to 1000') end
local root = KEYS[2]
local function read(record)
  local values = {}
  for i = 3, #ARGV do
    local short = redis.call('HSTRLEN', record, ARGV[i]) <= 65536
    values[#values + 1] = short and redis.call('HGET', record, ARGV[i]) or ''
  end
  return values
end

local entries = redis.call('ZREVRANGE', KEYS[1], 0, 999, 'WITHSCORES')
local rows = {}
for i = 1, #entries, 2 do
  local record = root .. entries[i]
  local prefix = redis.pcall('HGET', record, 'prefix')
  if prefix == ARGV[2] then rows[#rows + 1] = {entries[i], entries[i + 1], read(record)} end
  if #rows == limit then break end
end
return {decimal(server_ms()), redis.call('ZCARD', KEYS[1]), rows}
