--[[ metrics_read: what worker processes counted or noted in the last minutes or hours
  state    unchanged
  KEYS[1]  base      emq:{q}:, the root of dj:minutes:<hour>, dj:depths:<hour>, dj:hours:<day>
           and dj:peaks:<day>, hashes
  ARGV[1]  grain     minute | hour
  ARGV[2]  count     how many of them, this one included; 1 to 1,000
  ARGV[3]  what      figures | depths
  returns  {now ms, list of {start of the minute or hour (Unix ms), numbers as text}}, oldest first and
            without those of which nothing is known
  errors   EMQARG
  clock    server TIME
  source   ours ]]
-- include whole
-- include decimal
-- include clock

local count = whole(ARGV[2], 1, 1000)
local NAMES = {
  figures = {minute = 'dj:minutes:', hour = 'dj:hours:'},
  depths = {minute = 'dj:depths:', hour = 'dj:peaks:'},
}
local name = NAMES[ARGV[3]] and NAMES[ARGV[3]][ARGV[1]]
if not count or not name then
  return redis.error_reply('EMQARG count, grain or what is none that this script knows')
end
local base = KEYS[1]
local now = server_ms()
local grain_ms, per_key = 60000, 60
if ARGV[1] == 'hour' then grain_ms, per_key = 3600000, 24 end
local this = math.floor(now / grain_ms)
local found = {}
for at = this - count + 1, this do
  local key = base .. name .. decimal(math.floor(at / per_key))
  local numbers = redis.pcall('HGET', key, decimal(at % per_key))
  if type(numbers) == 'string' and #numbers <= 2000 then
    found[#found + 1] = {decimal(at * grain_ms), numbers}
  end
end
return {decimal(now), found}
