--[[ lane_depths: the figures of lanes
  state    unchanged
  KEYS[1]  base      emq:{q}:, the root of the lanes' keys
  ARGV[1]  limit     lanes at most, 1 to 1,000, when none are named
  ARGV[2+] lanes     branded ids; at most 1,000
  returns  a list of {lane, waiting, in flight, limit or '', weight, paused 0|1, on the ring 0|1}
  errors   EMQARG
  clock    none
  source   EchoMQ lane depths, with every lane that any key names ]]
-- include lanes
-- include known_lanes

local base, limit = KEYS[1], whole(ARGV[1], 1, 1000)
if not limit then return redis.error_reply('EMQARG limit must be a whole number from 1 to 1000') end
local groups = {}
for i = 2, #ARGV do groups[#groups + 1] = ARGV[i] end
if #groups == 0 then groups = known_lanes(base, limit) end
local figures = {}
for i, group in ipairs(groups) do
  local lane = read_lane(base, group)
  local weight = whole(redis.call('HGET', base .. 'gweight', group), 1, 1000) or 1
  figures[i] = {
    group, lane.waiting, decimal(lane.active), lane.limit and decimal(lane.limit) or '',
    decimal(weight), lane.paused and 1 or 0, lane.on_ring and 1 or 0,
  }
end
return figures
