--[[ worker_gone: a worker that ends takes its record with it
  state    unchanged; no job is touched
  KEYS[1]  workers   {emq}:dj:workers, zset
  KEYS[2]  record    {emq}:dj:worker:<incarnation>, hash
  ARGV[1]  name      incarnation
  returns  1 it was in the list | 0 it was not
  errors   none
  clock    none
  source   ours ]]
local was_there = redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('DEL', KEYS[2])
return was_there
