--[[ depth_note: note how many jobs a queue holds, once a minute whoever asks
  state    unchanged; no job is touched
  KEYS[1]  base      emq:{q}:, the root of dj:depths:<hour> and dj:peaks:<day>, hashes
  ARGV[1]  minutes   ms for which an hour's minutes are kept
  ARGV[2]  hours     ms for which a day's hours are kept; an hour keeps the largest of each number
  returns  1 noted | 0 this minute has its note
  errors   EMQARG
  clock    server TIME
  source   ours ]]
-- include whole
-- include decimal
-- include known_lanes
-- include clock

local MOST = 9007199254740991
local minutes_life, hours_life = whole(ARGV[1], 1, 4503599627370496), whole(ARGV[2], 1, 4503599627370496)
if not minutes_life or not hours_life then
  return redis.error_reply('EMQARG minutes and hours must be whole numbers of ms')
end
local base = KEYS[1]
local now = server_ms()
local minutes = base .. 'dj:depths:' .. decimal(math.floor(now / 3600000))
local hours = base .. 'dj:peaks:' .. decimal(math.floor(now / 86400000))
local minute = decimal(math.floor(now / 60000) % 60)
local hour = decimal(math.floor(now / 3600000) % 24)
if redis.call('HEXISTS', minutes, minute) == 1 then return 0 end
redis.call('HLEN', hours)

local in_lanes = 0
for _, lane in ipairs(known_lanes(base, 1000)) do
  local waiting = redis.pcall('ZCARD', base .. 'g:' .. lane .. ':pending')
  if type(waiting) == 'number' then in_lanes = in_lanes + waiting end
end
-- In the order that protocol/metrics.py gives.
local depths = {
  redis.call('ZCARD', base .. 'pending'), in_lanes, redis.call('ZCARD', base .. 'active'),
  redis.call('ZCARD', base .. 'schedule'), redis.call('ZCARD', base .. 'dead'),
}
local largest, n = {}, 0
for text in string.gmatch(redis.call('HGET', hours, hour) or '', '%S+') do
  n = n + 1
  largest[n] = whole(text, 0, MOST) or 0
  if n == #depths then break end
end
for i = 1, #depths do
  largest[i] = decimal(math.max(largest[i] or 0, depths[i]))
  depths[i] = decimal(depths[i])
end
redis.call('HSET', minutes, minute, table.concat(depths, ' '))
redis.call('PEXPIRE', minutes, decimal(minutes_life))
redis.call('HSET', hours, hour, table.concat(largest, ' '))
redis.call('PEXPIRE', hours, decimal(hours_life))
return 1
