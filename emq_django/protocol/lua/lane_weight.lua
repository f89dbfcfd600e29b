--[[ lane_weight: set or remove how many jobs of a lane are served in one turn
  state    unchanged
  KEYS[1]  base      emq:{q}:, the root of gweight
  ARGV[1]  lane      branded id
  ARGV[2]  weight    jobs per turn, 1 to 1,000; 1 removes the entry
  returns  1
  errors   EMQARG
  clock    none
  source   EchoMQ lane weight; its removal is ours ]]
-- include whole
-- include decimal

local weight = whole(ARGV[2], 1, 1000)
if not weight then return redis.error_reply('EMQARG weight must be a whole number from 1 to 1000') end
if weight > 1 then
  redis.call('HSET', KEYS[1] .. 'gweight', ARGV[1], decimal(weight))
else
  redis.call('HDEL', KEYS[1] .. 'gweight', ARGV[1])
end
return 1
