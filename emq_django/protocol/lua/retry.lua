--[[ retry: count a failed run, then park the job or bury it
  state    active -> scheduled, or dead when no try is left
  KEYS[1]  active    zset, score = lease end (ms)
  KEYS[2]  schedule  zset, score = due time (Unix ms, server clock)
  KEYS[3]  dead      zset, all scores 0
  KEYS[4]  row       emq:{q}:job:<id>, hash
  KEYS[5]  base      emq:{q}:, the root of the lane's keys and metrics:failed
  ARGV[1]  id        as claimed
  ARGV[2]  token     attempts as answered by the claim
  ARGV[3]  delay     ms from the server's now
  ARGV[4]  max       tries (failed runs and lost leases) at which the job dies
  ARGV[5]  error     text of this failure
  ARGV[6]  events    1 publishes "failed" on the channel events, with the error and what follows
  ARGV[7]  record    one more line for the row's errors, or empty
  returns  scheduled | dead
  errors   EMQSTALE ("job gone": there is no such row) EMQARG
  clock    server TIME
  source   EchoMQ retry; tries are counted apart from the token ]]
-- include rows
-- include leave
-- include lease
-- include bury
-- include results
-- include events
-- include clock

local delay = whole(ARGV[3], 0, 4503599627370496)
local max = whole(ARGV[4], 0, 4503599627370496)
if not delay or not max then
  return redis.error_reply('EMQARG delay and max must be whole numbers')
end
local id, base = ARGV[1], KEYS[5]
local fields = redis.call('HMGET', KEYS[4], 'attempts', 'state')
if not fields[1] then return redis.error_reply('EMQSTALE job gone') end
if fields[1] ~= ARGV[2] then return redis.error_reply('EMQSTALE another claim holds the job') end
if lease_ended(fields[2]) or not redis.call('ZSCORE', KEYS[1], id) then
  return redis.error_reply('EMQSTALE the lease was lost')
end
local job = read_row(KEYS[4])
redis.call('ZCARD', KEYS[3])
leave_read(base)
local failed = bury_read(base)
local lane = job.group and read_lane(base, job.group)
local now = server_ms()

redis.call('ZREM', KEYS[1], id)
leave(base, id, lane)
if lane then
  write_in_flight(lane, -1)
  write_ring(lane)
end
redis.call('HDEL', KEYS[4], 'worker', 'parked')
add_error(KEYS[4], ARGV[7])
local failures = job.failures + 1
redis.call('HSET', KEYS[4], 'failures', decimal(failures))
if failures + job.stalled >= max then
  bury(base, id, job, ARGV[5], now)
  bury_count(base, failed, 1)
  if ARGV[6] == '1' then publish(base, 'failed', id, {error = ARGV[5], state = 'dead'}) end
  return 'dead'
end
redis.call('HSET', KEYS[4], 'state', 'scheduled', 'last_error', ARGV[5])
redis.call('ZADD', KEYS[2], now + delay, id)
if ARGV[6] == '1' then publish(base, 'failed', id, {error = ARGV[5], state = 'scheduled'}) end
return 'scheduled'
