--[[ resume: hand out jobs of a queue again, whatever value the pause has
  state    unchanged
  KEYS[1]  meta      hash, field paused
  returns  1 it was paused | 0 it was running already
  errors   none
  clock    none
  source   EchoMQ resume ]]
return redis.call('HDEL', KEYS[1], 'paused')
