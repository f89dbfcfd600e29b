--[[ lane_limit: set or remove a lane's ceiling of jobs in flight
  state    unchanged
  KEYS[1]  base      emq:{q}:, the root of the lane's keys
  ARGV[1]  lane      branded id
  ARGV[2]  limit     jobs in flight at most; 0 removes the ceiling
  returns  jobs of the lane that are in flight now
  errors   EMQARG
  clock    none
  source   EchoMQ lane limit; its removal is ours ]]
-- include lanes

local limit = whole(ARGV[2], 0, 4503599627370496)
if not limit then return redis.error_reply('EMQARG limit must be a whole number') end
local lane = read_lane(KEYS[1], ARGV[1])
if limit > 0 then
  redis.call('HSET', KEYS[1] .. 'glimit', ARGV[1], decimal(limit))
  lane.limit = limit
else
  redis.call('HDEL', KEYS[1] .. 'glimit', ARGV[1])
  lane.limit = nil
end
write_ring(lane)
return lane.active
