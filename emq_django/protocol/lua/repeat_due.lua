--[[ repeat_due: the repeats whose time has come, and when the next one's will
  state    unchanged
  KEYS[1]  repeat    zset of names, score = next run (Unix ms)
  ARGV[1]  batch     names at most, 1 to 1,000
  returns  {now ms, {name, due ms, name, due ms, ...}, due ms of the first later one or ''}
  errors   EMQARG
  clock    server TIME
  source   EchoMQ repeat due-read ]]
-- include whole
-- include decimal
-- include clock

local batch = whole(ARGV[1], 1, 1000)
if not batch then return redis.error_reply('EMQARG batch must be a whole number from 1 to 1000') end
local now = decimal(server_ms())
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES', 'LIMIT', 0, batch)
local later = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return {now, due, later[2] or ''}
