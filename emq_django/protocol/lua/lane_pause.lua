--[[ lane_pause: hand out no more jobs of a lane; what runs goes on
  state    unchanged
  KEYS[1]  base      emq:{q}:, the root of the lane's keys
  ARGV[1]  lane      branded id
  returns  1 it was running | 0 it was paused already
  errors   none
  clock    none
  source   EchoMQ lane pause ]]
-- include lanes

local lane = read_lane(KEYS[1], ARGV[1])
local changed = redis.call('SADD', KEYS[1] .. 'paused', ARGV[1])
lane.paused = true
write_ring(lane)
return changed
