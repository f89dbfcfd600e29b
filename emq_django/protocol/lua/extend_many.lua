--[[ extend_many: let several leases end later, all at the same time
  state    active -> active
  KEYS[1]  active    zset, score = lease end (Unix ms, server clock)
  KEYS[2]  base      emq:{q}:, the root of the rows
  ARGV[1]  lease     ms from the server's now, > 0
  ARGV[2+] pairs     id, token; at most 1,000 pairs
  returns  the ids that were not extended: their lease is lost, or their row is gone
  errors   EMQARG
  clock    server TIME
  source   EchoMQ extend_locks; only what is still active is extended ]]
-- include whole
-- include lease
-- include clock

local lease = whole(ARGV[1], 1, 4503599627370496)
if not lease then return redis.error_reply('EMQARG lease must be a whole number of ms above 0') end
local deadline = server_ms() + lease
local lost = {}
for i = 2, #ARGV, 2 do
  local id = ARGV[i]
  local fields = redis.pcall('HMGET', KEYS[2] .. 'job:' .. id, 'attempts', 'state')
  if fields[1] == ARGV[i + 1] and not lease_ended(fields[2]) and redis.call('ZSCORE', KEYS[1], id) then
    -- Out and in again: a server that is full refuses a ZADD that comes first.
    redis.call('ZREM', KEYS[1], id)
    redis.call('ZADD', KEYS[1], deadline, id)
  else
    lost[#lost + 1] = id
  end
end
return lost
