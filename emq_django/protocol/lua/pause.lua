--[[ pause: hand out no more jobs of a queue; what runs goes on
  state    unchanged
  KEYS[1]  meta      hash, field paused
  returns  1 it was running | 0 it was paused already
  errors   none
  clock    none
  source   EchoMQ pause ]]
return redis.call('HSET', KEYS[1], 'paused', '1')
