--[[ reassign: move a waiting job to another lane
  state    pending -> pending
  KEYS[1]  row       emq:{q}:job:<id>, hash
  KEYS[2]  base      emq:{q}:, the root of the lanes' keys
  ARGV[1]  id        as the sets hold it
  ARGV[2]  lane      branded id of the destination
  returns  1 moved | 0 it is in that lane | -1 no row, or no lane | -2 it does not wait in its lane
  errors   none
  clock    none
  source   EchoMQ reassign ]]
-- include lanes

local id, base = ARGV[1], KEYS[2]
local group = redis.call('HGET', KEYS[1], 'group')
if not group then return -1 end
if group == ARGV[2] then return 0 end
local from, to = read_lane(base, group), read_lane(base, ARGV[2])
if from.broken or not redis.call('ZSCORE', from.key, id) then return -2 end
redis.call('ZCARD', to.key)

redis.call('ZREM', from.key, id)
redis.call('ZADD', to.key, 0, id)
redis.call('HSET', KEYS[1], 'group', ARGV[2])
from.waiting = from.waiting - 1
to.waiting = to.waiting + 1
write_ring(from)
write_ring(to)
return 1
