--[[ update_payload: give a job other bytes, unless a worker holds it
  state    unchanged
  KEYS[1]  row       emq:{q}:job:<id>, hash
  ARGV[1]  payload   bytes, stored as they are
  ARGV[2]  digest    SHA-1 of the payload to be replaced, or empty for any
  returns  1 updated | 0 active, left alone | -1 there is no such row | -2 its payload is another one
  errors   none
  clock    none
  source   EchoMQ update_data; ours leaves a running job alone ]]
local state = redis.call('HMGET', KEYS[1], 'state', 'payload')
if not state[2] then return -1 end
if state[1] == 'active' then return 0 end
if ARGV[2] and ARGV[2] ~= '' and redis.sha1hex(state[2]) ~= ARGV[2] then return -2 end
redis.call('HSET', KEYS[1], 'payload', ARGV[1])
return 1
