--[[ schedule: park one job until its due time, once while its row lives
  state    (no row) -> scheduled
  KEYS[1]  row       emq:{q}:job:<id>, hash
  KEYS[2]  schedule  zset, score = due time (Unix ms)
  ARGV[1]  id        14 bytes, JOB-namespaced
  ARGV[2]  payload   bytes, stored as they are
  ARGV[3]  mode      at | in
  ARGV[4]  number    at: Unix ms; in: ms from the server's now
  ARGV[5]  lane      branded id, or empty
  returns  1 parked | 0 a row with this id exists, nothing written
  errors   EMQKIND EMQARG
  clock    server TIME for "in"
  source   EchoMQ schedule; the lane is ours ]]
-- include whole
-- include clock

if string.sub(ARGV[1], 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end
local due = whole(ARGV[4], 0, 4503599627370496)
if not due or (ARGV[3] ~= 'at' and ARGV[3] ~= 'in') then
  return redis.error_reply('EMQARG due time must be a whole number of ms, mode at or in')
end
redis.call('ZCARD', KEYS[2])
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if ARGV[3] == 'in' then due = server_ms() + due end
redis.call('HSET', KEYS[1], 'state', 'scheduled', 'attempts', '0', 'payload', ARGV[2])
if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], 'group', ARGV[5]) end
redis.call('ZADD', KEYS[2], due, ARGV[1])
return 1
