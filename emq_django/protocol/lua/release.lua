--[[ release: hand a job back unfinished; the run counts for nothing
  state    active -> pending, or its lane
  KEYS[1]  active    zset, score = lease end (ms)
  KEYS[2]  pending   zset, all scores 0
  KEYS[3]  row       emq:{q}:job:<id>, hash
  KEYS[4]  base      emq:{q}:, the root of the lane's keys
  ARGV[1]  id        as claimed
  ARGV[2]  token     attempts as answered by the claim
  returns  1 handed back | 0 there is no such row
  errors   EMQSTALE
  clock    none
  source   ours ]]
-- include leave
-- include lease

local id, base = ARGV[1], KEYS[4]
local fields = redis.call('HMGET', KEYS[3], 'attempts', 'group', 'state')
if not fields[1] then return 0 end
if fields[1] ~= ARGV[2] then return redis.error_reply('EMQSTALE another claim holds the job') end
if lease_ended(fields[3]) or not redis.call('ZSCORE', KEYS[1], id) then
  return redis.error_reply('EMQSTALE the lease was lost')
end
leave_read(base)
local lane = fields[2] and read_lane(base, fields[2])
if lane then redis.call('ZCARD', lane.key) end

redis.call('ZREM', KEYS[1], id)
leave(base, id, lane)
redis.call('HSET', KEYS[3], 'state', 'pending')
redis.call('HDEL', KEYS[3], 'worker')
if lane then
  lane.waiting = lane.waiting + redis.call('ZADD', lane.key, 0, id)
  write_in_flight(lane, -1)
  write_ring(lane)
else
  redis.call('ZADD', KEYS[2], 0, id)
end
return 1
