--[[ repeat_fire: enqueue a due repeat's job and set its next run, in one step
  state    (no row) -> pending
  KEYS[1]  repeat    zset of names, score = next run (Unix ms)
  KEYS[2]  pending   zset, all scores 0
  KEYS[3]  base      emq:{q}:, the root of the record repeat:<name> and of the row
  ARGV[1]  name      any bytes
  ARGV[2]  due       the score that the caller read: another worker has fired when it differs
  ARGV[3]  id        minted by the caller, JOB-namespaced
  returns  {1 fired | 0 fired by another, cancelled or not due | -1 the id is taken, runs missed}
  errors   EMQKIND EMQARG
  clock    server TIME
  source   EchoMQ's pump does the same in four steps; missed runs are skipped ]]
-- include whole
-- include clock

if string.sub(ARGV[3], 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end
local due = tonumber(ARGV[2])
if not due then return redis.error_reply('EMQARG due must be the score that was read') end
local base, name = KEYS[3], ARGV[1]
local score = redis.call('ZSCORE', KEYS[1], name)
if not score or tonumber(score) ~= due then return {0, 0} end
local fields = redis.call('HMGET', base .. 'repeat:' .. name, 'every_ms', 'template')
local every = whole(fields[1], 1, 4503599627370496)
if not every or not fields[2] then
  redis.call('ZREM', KEYS[1], name)
  return {0, 0}
end
local row = base .. 'job:' .. ARGV[3]
redis.call('ZCARD', KEYS[2])
if redis.call('EXISTS', row) == 1 then return {-1, 0} end
local now = server_ms()
if due > now then return {0, 0} end
-- A score below zero is nobody's time, and -inf would make the next one no number.
local missed = due >= 0 and math.floor((now - due) / every) or 0
local following = due >= 0 and due + (missed + 1) * every or now + every

redis.call('HSET', row, 'state', 'pending', 'attempts', '0', 'payload', fields[2])
redis.call('ZADD', KEYS[2], 0, ARGV[3])
redis.call('ZADD', KEYS[1], following, name)
return {1, missed}
