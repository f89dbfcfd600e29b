--[[ extend: let a lease end later
  state    active -> active
  KEYS[1]  active    zset, score = lease end (Unix ms, server clock)
  KEYS[2]  row       emq:{q}:job:<id>, hash
  ARGV[1]  id        as claimed
  ARGV[2]  token     attempts as answered by the claim
  ARGV[3]  lease     ms from the server's now, > 0
  returns  1 extended | -1 there is no such row
  errors   EMQSTALE EMQARG
  clock    server TIME
  source   EchoMQ extend_lock; only what is still active is extended ]]
-- include whole
-- include lease
-- include clock

local lease = whole(ARGV[3], 1, 4503599627370496)
if not lease then return redis.error_reply('EMQARG lease must be a whole number of ms above 0') end
local fields = redis.call('HMGET', KEYS[2], 'attempts', 'state')
if not fields[1] then return -1 end
if fields[1] ~= ARGV[2] then return redis.error_reply('EMQSTALE another claim holds the job') end
if lease_ended(fields[2]) or not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return redis.error_reply('EMQSTALE the lease was lost')
end
local deadline = server_ms() + lease
-- Out and in again: a server that is full refuses a ZADD that comes first, and the running job would
-- lose its lease.
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[1], deadline, ARGV[1])
return 1
