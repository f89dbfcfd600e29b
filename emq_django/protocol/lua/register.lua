--[[ register: note a queue's name, so that operators see queues that no settings name
  state    unchanged
  KEYS[1]  queues    {emq}:dj:queues, set of wire names
  ARGV[1]  name      wire name of the queue: with its prefix, without braces
  returns  1 the set holds the name | 0 the set is full, nothing written
  errors   none
  clock    none
  source   ours ]]
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then return 1 end
-- The set is read as a whole: an application that makes up a name per user must not let it grow.
if redis.call('SCARD', KEYS[1]) >= 1000 then return 0 end
redis.call('SADD', KEYS[1], ARGV[1])
return 1
