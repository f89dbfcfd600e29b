--[[ progress: note how far a job is and tell listeners
  state    unchanged
  KEYS[1]  row       emq:{q}:job:<id>, hash
  KEYS[2]  base      emq:{q}:, the root of the channel events
  ARGV[1]  id        as the sets hold it
  ARGV[2]  value     text, stored and published
  returns  1 noted | -1 there is no such row
  errors   none
  clock    none
  source   EchoMQ progress ]]
-- include events

if redis.call('HEXISTS', KEYS[1], 'payload') == 0 then return -1 end
redis.call('HSET', KEYS[1], 'progress', ARGV[2])
publish(KEYS[2], 'progress', ARGV[1], {progress = ARGV[2]})
return 1
