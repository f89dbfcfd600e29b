--[[ drop_ghosts: take ids without a row out of the sets
  state    (no row)
  KEYS[1]  base      emq:{q}:, the root of the sets and the rows
  ARGV[1]  lane      branded id of a lane to look in as well, or empty
  ARGV[2+] ids       at most 1,000
  returns  one per id, in order: 1 dropped | 0 it has a row, or stands in none of these sets
  errors   none
  clock    none
  source   ours ]]
-- include lanes

local base, sets = KEYS[1], {}
for _, set in ipairs({'pending', 'active', 'schedule', 'dead'}) do
  redis.call('ZCARD', base .. set)
  sets[#sets + 1] = base .. set
end
local lane = ARGV[1] ~= '' and read_lane(base, ARGV[1])
local answers = {}
for i = 2, #ARGV do
  local left = 0
  if redis.call('EXISTS', base .. 'job:' .. ARGV[i]) == 0 then
    for _, set in ipairs(sets) do left = left + redis.call('ZREM', set, ARGV[i]) end
    if lane and not lane.broken then
      local gone = redis.call('ZREM', lane.key, ARGV[i])
      lane.waiting = lane.waiting - gone
      left = left + gone
    end
  end
  answers[#answers + 1] = left > 0 and 1 or 0
end
if lane then write_ring(lane) end
return answers
