--[[ delay: park a job for later without a failure
  state    active -> scheduled
  KEYS[1]  active    zset, score = lease end (ms)
  KEYS[2]  schedule  zset, score = due time (Unix ms)
  KEYS[3]  row       emq:{q}:job:<id>, hash
  KEYS[4]  base      emq:{q}:, the root of the lane's keys
  ARGV[1]  id        as claimed
  ARGV[2]  token     attempts as answered by the claim
  ARGV[3]  mode      at | in
  ARGV[4]  number    at: Unix ms; in: ms from the server's now
  ARGV[5]  events    1 publishes "delayed" on the channel events
  returns  1 parked
  errors   EMQSTALE ("job gone": there is no such row) EMQARG
  clock    server TIME for "in"
  source   EchoMQ delay ]]
-- include leave
-- include lease
-- include events
-- include clock

local due = whole(ARGV[4], 0, 4503599627370496)
if not due or (ARGV[3] ~= 'at' and ARGV[3] ~= 'in') then
  return redis.error_reply('EMQARG due time must be a whole number of ms, mode at or in')
end
local id, base = ARGV[1], KEYS[4]
local fields = redis.call('HMGET', KEYS[3], 'attempts', 'group', 'state')
if not fields[1] then return redis.error_reply('EMQSTALE job gone') end
if fields[1] ~= ARGV[2] then return redis.error_reply('EMQSTALE another claim holds the job') end
if lease_ended(fields[3]) or not redis.call('ZSCORE', KEYS[1], id) then
  return redis.error_reply('EMQSTALE the lease was lost')
end
leave_read(base)
local lane = fields[2] and read_lane(base, fields[2])
if ARGV[3] == 'in' then due = server_ms() + due end

redis.call('ZREM', KEYS[1], id)
leave(base, id, lane)
if lane then
  write_in_flight(lane, -1)
  write_ring(lane)
end
redis.call('HSET', KEYS[3], 'state', 'scheduled')
redis.call('HDEL', KEYS[3], 'worker')
redis.call('ZADD', KEYS[2], due, id)
if ARGV[5] == '1' then publish(base, 'delayed', id) end
return 1
