--[[ worker_beat: a worker says that it lives, and what it does
  state    unchanged; no job is touched
  KEYS[1]  workers   {emq}:dj:workers, zset, score = last beat (Unix ms, server clock)
  KEYS[2]  record    {emq}:dj:worker:<incarnation>, hash
  ARGV[1]  name      incarnation
  ARGV[2]  life      ms for which the record of a worker that fell silent is kept
  ARGV[3]  uptime    ms since the worker started, by its own clock
  ARGV[4+] pairs     fields of the record and their values
  returns  now ms
  errors   EMQARG
  clock    server TIME
  source   ours ]]
-- include whole
-- include decimal
-- include clock

local life, uptime = whole(ARGV[2], 1, 4503599627370496), whole(ARGV[3], 0, 4503599627370496)
if not life or not uptime then
  return redis.error_reply('EMQARG life and uptime must be whole numbers of ms')
end
redis.call('ZCARD', KEYS[1])
redis.call('HLEN', KEYS[2])
local now = server_ms()
redis.call('ZADD', KEYS[1], decimal(now), ARGV[1])
for i = 4, #ARGV - 1, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
redis.call('HSET', KEYS[2], 'started_ms', decimal(now - uptime))
redis.call('PEXPIRE', KEYS[2], decimal(life))
-- Those that fell silent for so long have no record any more; each beat takes out a few.
local silent = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. decimal(now - life), 'LIMIT', 0, 20)
for _, name in ipairs(silent) do redis.call('ZREM', KEYS[1], name) end
return decimal(now)
