--[[ unregister: take a queue's name off the list of those that applications noted
  state    unchanged
  KEYS[1]  queues    {emq}:dj:queues, set of wire names
  ARGV[1]  name      wire name of the queue: with its prefix, without braces
  returns  1 the name was in the set | 0 it was not
  errors   none
  clock    none
  source   ours ]]
return redis.call('SREM', KEYS[1], ARGV[1])
