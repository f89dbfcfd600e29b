--[[ registered: the names of the queues that applications noted
  state    unchanged
  KEYS[1]  queues    {emq}:dj:queues, set of wire names
  returns  {names in the set, list of names: all of them, or any 1,000 where there are more}
  errors   none
  clock    none
  source   ours ]]
return {redis.call('SCARD', KEYS[1]), redis.call('SRANDMEMBER', KEYS[1], 1000)}
