--[[ enqueue: admit one job to the flat pending set, once while its row lives
  state    (no row) -> pending
  KEYS[1]  row       emq:{q}:job:<id>, hash
  KEYS[2]  pending   zset, all scores 0: byte order is mint order
  ARGV[1]  id        14 bytes, JOB-namespaced
  ARGV[2]  payload   bytes, stored as they are
  returns  1 admitted | 0 a row with this id exists, nothing written
  errors   EMQKIND
  clock    none
  source   specification, enqueue ]]
if string.sub(ARGV[1], 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end
-- Read first: a pending key of another type must stop the script before the row is written.
redis.call('ZCARD', KEYS[2])
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'state', 'pending', 'attempts', '0', 'payload', ARGV[2])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return 1
