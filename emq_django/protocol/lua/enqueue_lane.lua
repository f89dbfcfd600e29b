--[[ enqueue_lane: admit one job to a lane and put the lane on the ring when it can be served
  state    (no row) -> pending
  KEYS[1]  row       emq:{q}:job:<id>, hash
  KEYS[2]  lane      emq:{q}:g:<lane>:pending, zset, all scores 0
  KEYS[3]  base      emq:{q}:, the root of ring, paused, glimit, gactive and wake
  ARGV[1]  id        14 bytes, JOB-namespaced
  ARGV[2]  payload   bytes, stored as they are
  ARGV[3]  lane      branded id of any namespace
  returns  1 admitted | 0 a row with this id exists, nothing written
  errors   EMQKIND
  clock    none
  source   EchoMQ lanes, enqueue ]]
-- include lanes

if string.sub(ARGV[1], 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end
redis.call('ZCARD', KEYS[2])
local lane = read_lane(KEYS[3], ARGV[3])
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'state', 'pending', 'attempts', '0', 'payload', ARGV[2], 'group', ARGV[3])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
lane.waiting = lane.waiting + 1
write_ring(lane)
return 1
