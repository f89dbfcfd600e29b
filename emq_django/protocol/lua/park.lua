--[[ park: put a job aside that this worker can't run, or bury it when that goes on for too long
  state    active -> scheduled, or dead
  KEYS[1]  active    zset, score = lease end (ms)
  KEYS[2]  schedule  zset, score = due time (Unix ms, server clock)
  KEYS[3]  dead      zset, all scores 0
  KEYS[4]  row       emq:{q}:job:<id>, hash; its field parked says since when
  KEYS[5]  base      emq:{q}:, the root of the lane's keys and metrics:failed
  ARGV[1]  id        as claimed
  ARGV[2]  token     attempts as answered by the claim
  ARGV[3]  delay     ms from the server's now
  ARGV[4]  grace     ms from its first parking after which the job is buried; 0 buries it now
  ARGV[5]  reason    for the row of a job that is buried
  ARGV[6]  events    1 publishes "delayed", or "failed" for a job that is buried
  returns  scheduled | dead
  errors   EMQSTALE ("job gone": there is no such row) EMQARG
  clock    server TIME
  source   ours ]]
-- include rows
-- include leave
-- include lease
-- include bury
-- include events
-- include clock

local delay = whole(ARGV[3], 0, 4503599627370496)
local grace = whole(ARGV[4], 0, 4503599627370496)
if not delay or not grace then
  return redis.error_reply('EMQARG delay and grace must be whole numbers of ms')
end
local id, base = ARGV[1], KEYS[5]
local fields = redis.call('HMGET', KEYS[4], 'attempts', 'parked', 'state')
if not fields[1] then return redis.error_reply('EMQSTALE job gone') end
if fields[1] ~= ARGV[2] then return redis.error_reply('EMQSTALE another claim holds the job') end
if lease_ended(fields[3]) or not redis.call('ZSCORE', KEYS[1], id) then
  return redis.error_reply('EMQSTALE the lease was lost')
end
local job = read_row(KEYS[4])
redis.call('ZCARD', KEYS[3])
leave_read(base)
local failed = bury_read(base)
local lane = job.group and read_lane(base, job.group)
local now = server_ms()
local since = whole(fields[2], 0, 4503599627370496) or now

redis.call('ZREM', KEYS[1], id)
leave(base, id, lane)
if lane then
  write_in_flight(lane, -1)
  write_ring(lane)
end
redis.call('HDEL', KEYS[4], 'worker')
if now - since >= grace then
  redis.call('HDEL', KEYS[4], 'parked')  -- another life begins with all its grace
  bury(base, id, job, ARGV[5], now)
  bury_count(base, failed, 1)
  if ARGV[6] == '1' then publish(base, 'failed', id, {error = ARGV[5], state = 'dead'}) end
  return 'dead'
end
redis.call('HSET', KEYS[4], 'state', 'scheduled', 'parked', decimal(since))
redis.call('ZADD', KEYS[2], now + delay, id)
if ARGV[6] == '1' then publish(base, 'delayed', id) end
return 'scheduled'
