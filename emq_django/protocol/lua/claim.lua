--[[ claim: hand the oldest job of the flat set to one caller
  state    pending -> active
  KEYS[1]  pending   zset, all scores 0
  KEYS[2]  active    zset, score = lease end (Unix ms, server clock)
  KEYS[3]  base      emq:{q}:, the root of rows, meta, dead and lane counters
  ARGV[1]  lease     ms, > 0
  returns  {} nothing to hand over (empty, paused, or the head was a ghost or runs already)
            | {id, payload, attempts}
  errors   EMQARG
  clock    server TIME
  source   specification, flat claim; the pause is read in here, not in a trip of its own ]]
-- include rows
-- include leave
-- include lease
-- include bury
-- include clock

local lease = whole(ARGV[1], 1, 4503599627370496)
if not lease then return redis.error_reply('EMQARG lease must be a whole number of ms above 0') end
local base = KEYS[3]
if redis.call('HEXISTS', base .. 'meta', 'paused') == 1 then return {} end
local id = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
if not id then return {} end
redis.call('ZCARD', KEYS[2])
redis.call('ZCARD', base .. 'schedule')
local row = base .. 'job:' .. id
local job = read_row(row)
local running = is_running(KEYS[2], id, job)
local failed = bury_read(base)
-- A lane's job can stand in the flat set when another speaker put it there: it counts all the same,
-- and goes home while its lane may hand out nothing.
local lane = job.group and read_lane(base, job.group)
local now = server_ms()

redis.call('ZPOPMIN', KEYS[1])
if running then return {} end
if job.kind == 'ghost' then
  redis.call('DEL', row)
  return {}
end
leave_before_claim(base, id, job, lane)
if job.kind == 'broken' or job.cancelled then
  bury(base, id, job, job.cancelled and CANCELLED or BROKEN, now)
  bury_count(base, failed, 1)
  if lane then write_ring(lane) end
  return {}
end
if lane and not lane.broken and (lane.paused or lane.limit and lane.active >= lane.limit) then
  redis.call('ZADD', lane.key, 0, id)
  return {}
end
local attempts = redis.call('HINCRBY', row, 'attempts', 1)
redis.call('HSET', row, 'state', 'active')
redis.call('ZADD', KEYS[2], now + lease, id)
if lane then
  write_in_flight(lane, 1)
  write_ring(lane)
end
return {id, redis.call('HGET', row, 'payload'), attempts}
