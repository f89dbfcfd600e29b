--[[ repeat_cancel: stop a repeat; jobs that it enqueued stay
  state    unchanged
  KEYS[1]  repeat    zset of names, score = next run (Unix ms)
  KEYS[2]  base      emq:{q}:, the root of the record repeat:<name>
  ARGV[1]  name      any bytes
  returns  1 stopped | 0 there is no such repeat
  errors   none
  clock    none
  source   EchoMQ repeat cancel ]]
local was_due = redis.call('ZREM', KEYS[1], ARGV[1])
local was_there = redis.call('DEL', KEYS[2] .. 'repeat:' .. ARGV[1])
return math.max(was_due, was_there)
