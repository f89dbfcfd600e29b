--[[ add_log: add a line to a job's log
  state    unchanged
  KEYS[1]  row       emq:{q}:job:<id>, hash
  KEYS[2]  logs      emq:{q}:job:<id>:logs, list, oldest first
  ARGV[1]  line      text
  ARGV[2]  keep      lines kept, 1 to 1,000
  returns  lines in the log | -1 there is no such row
  errors   EMQARG
  clock    none
  source   EchoMQ add_log; the log is always bounded ]]
-- include whole

local keep = whole(ARGV[2], 1, 1000)
if not keep then return redis.error_reply('EMQARG keep must be a whole number from 1 to 1000') end
if redis.call('HEXISTS', KEYS[1], 'payload') == 0 then return -1 end
redis.call('LLEN', KEYS[2])
redis.call('RPUSH', KEYS[2], ARGV[1])
redis.call('LTRIM', KEYS[2], -keep, -1)
return redis.call('LLEN', KEYS[2])
