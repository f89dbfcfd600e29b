--[[ metrics_flush: add what a worker process counted to its minute and to its hour
  state    unchanged; no job is touched
  KEYS[1]  base      emq:{q}:, the root of dj:minutes:<hour> and dj:hours:<day>, hashes
  ARGV[1]  ago       ms since it happened
  ARGV[2]  minutes   ms for which an hour's minutes are kept
  ARGV[3]  hours     ms for which a day's hours are kept
  ARGV[4]  numbers   of one record, blanks between, in the order that protocol/metrics.py gives; 100
                     at most
  returns  now ms
  errors   EMQARG
  clock    server TIME
  source   ours ]]
-- include whole
-- include decimal
-- include clock

local MOST = 9007199254740991
local ago = whole(ARGV[1], 0, 4503599627370496)
local minutes_life, hours_life = whole(ARGV[2], 1, 4503599627370496), whole(ARGV[3], 1, 4503599627370496)
if not ago or not minutes_life or not hours_life then
  return redis.error_reply('EMQARG ago, minutes and hours must be whole numbers of ms')
end
local added = {}
for text in string.gmatch(ARGV[4], '%S+') do
  added[#added + 1] = whole(text, 0, MOST)
  if #added == 100 then break end
end
local base = KEYS[1]
local now = server_ms()
local at = now - ago
local minutes = base .. 'dj:minutes:' .. decimal(math.floor(at / 3600000))
local hours = base .. 'dj:hours:' .. decimal(math.floor(at / 86400000))
local minute = decimal(math.floor(at / 60000) % 60)
local hour = decimal(math.floor(at / 3600000) % 24)
redis.call('HLEN', minutes)
redis.call('HLEN', hours)

-- One text of numbers per record, trailing zeros left out: a quarter of what a field per number takes.
-- A number that is none counts as 0, so the write can't fail on a damaged record.
local function add(key, field, life)
  local sums, n = {}, 0
  for text in string.gmatch(redis.call('HGET', key, field) or '', '%S+') do
    n = n + 1
    sums[n] = whole(text, 0, MOST) or 0
    if n == 100 then break end
  end
  local last = 0
  for i = 1, math.max(n, #added) do
    sums[i] = math.min((sums[i] or 0) + (added[i] or 0), MOST)
    if sums[i] > 0 then last = i end
  end
  for i = 1, #sums do sums[i] = decimal(sums[i]) end
  redis.call('HSET', key, field, table.concat(sums, ' ', 1, last))
  redis.call('PEXPIRE', key, decimal(life))
end
add(minutes, minute, minutes_life)
add(hours, hour, hours_life)
return decimal(now)
