--[[ complete: end a job that its holder has finished
  state    active (or wherever a sweep has put it since) -> (no row), or its row stays as a result
  KEYS[1]  active    zset, score = lease end (ms)
  KEYS[2]  row       emq:{q}:job:<id>, hash; with it go <row>:logs and <row>:lock. With a ttl the row
                     becomes <row>:result, and the log stays as long
  KEYS[3]  base      emq:{q}:, the root of the other sets, the lane's keys, dj:finished and metrics:completed
  ARGV[1]  id        as claimed
  ARGV[2]  token     attempts as answered by the claim
  ARGV[3]  done      ms for which <row>:done tells of this; 0 leaves no mark
  ARGV[4]  events    1 publishes "completed" on the channel events
  ARGV[5]  ttl       ms for which the result stays; 0 keeps none, and nothing below counts
  ARGV[6]  bytes     a payload above this size does not stay with it
  ARGV[7]  kept      ids that dj:finished remembers, the last ones
  ARGV[8]  record    one more line for the row's errors, or empty
  ARGV[9+] pairs     fields of the result and their values
  returns  1 completed | 0 there is no such row
  errors   EMQSTALE EMQARG
  clock    server TIME where a result is kept
  source   EchoMQ complete ]]
-- include leave
-- include lease
-- include unique
-- include results
-- include events
-- include clock

local done = whole(ARGV[3], 0, 4503599627370496)
if not done then return redis.error_reply('EMQARG done must be a whole number of ms') end
local ttl, bytes = whole(ARGV[5] or '0', 0, 4503599627370496), whole(ARGV[6] or '0', 0, 9007199254740991)
local kept = whole(ARGV[7] or '0', 0, 9007199254740991)
if not ttl or not bytes or not kept then
  return redis.error_reply('EMQARG ttl, bytes and kept must be whole numbers')
end
local id, base = ARGV[1], KEYS[3]
local fields = redis.call('HMGET', KEYS[2], 'attempts', 'group', 'unique', 'state')
if not fields[1] then return 0 end
if fields[1] ~= ARGV[2] then return redis.error_reply('EMQSTALE another claim holds the job') end
redis.call('ZCARD', KEYS[1])
leave_read(base)
local completed = read_counter(base .. 'metrics:completed', 'count')
local lane = fields[2] and read_lane(base, fields[2])
local now = 0
if ttl > 0 then
  redis.call('ZCARD', base .. 'dj:finished')
  now = server_ms()
end

-- The token decides: finished work is not refused because a reaper came first.
local was_active = redis.call('ZREM', KEYS[1], id)
leave(base, id, lane)
if lane then
  if was_active == 1 and not lease_ended(fields[4]) then write_in_flight(lane, -1) end
  write_ring(lane)
end
free_unique(base, id, fields[3])
if ttl > 0 then
  add_error(KEYS[2], ARGV[8])
  keep_result(base, id, ttl, bytes, kept, now, ARGV, 9, #ARGV)
else
  redis.call('DEL', KEYS[2], KEYS[2] .. ':logs')
end
redis.call('DEL', KEYS[2] .. ':lock')
if done > 0 then redis.call('SET', KEYS[2] .. ':done', '1', 'PX', decimal(done)) end
write_counter(base .. 'metrics:completed', 'count', completed + 1)
if ARGV[4] == '1' then publish(base, 'completed', id) end
return 1
