--[[ repeat_register: enqueue the same payload again and again, from a time on
  state    unchanged
  KEYS[1]  repeat    zset of names, score = next run (Unix ms)
  KEYS[2]  base      emq:{q}:, the root of the record repeat:<name>
  ARGV[1]  name      any bytes
  ARGV[2]  every     ms between runs, > 0
  ARGV[3]  template  payload of each job
  ARGV[4]  first     Unix ms of the first run; empty: one period from the server's now
  returns  1 registered | 0 the name is taken
  errors   EMQARG
  clock    server TIME
  source   EchoMQ repeat register ]]
-- include whole
-- include decimal
-- include clock

local every, first = whole(ARGV[2], 1, 4503599627370496), whole(ARGV[4], 0, 4503599627370496)
if not every or (ARGV[4] ~= '' and not first) then
  return redis.error_reply('EMQARG every and first must be whole numbers of ms')
end
local record = KEYS[2] .. 'repeat:' .. ARGV[1]
redis.call('ZCARD', KEYS[1])
if redis.call('EXISTS', record) == 1 then return 0 end
local due = first or server_ms() + every
redis.call('HSET', record, 'every_ms', decimal(every), 'template', ARGV[3])
redis.call('ZADD', KEYS[1], due, ARGV[1])
return 1
