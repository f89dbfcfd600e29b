--[[ lane_resume: hand out jobs of a lane again
  state    unchanged
  KEYS[1]  base      emq:{q}:, the root of the lane's keys
  ARGV[1]  lane      branded id
  returns  1 it was paused | 0 it was running already
  errors   none
  clock    none
  source   EchoMQ lane resume ]]
-- include lanes

local lane = read_lane(KEYS[1], ARGV[1])
local changed = redis.call('SREM', KEYS[1] .. 'paused', ARGV[1])
lane.paused = false
write_ring(lane)
return changed
