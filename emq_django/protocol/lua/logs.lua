--[[ logs: the last lines of a job's log
  state    unchanged
  KEYS[1]  logs      emq:{q}:job:<id>:logs, list, oldest first
  ARGV[1]  limit     lines at most, 1 to 1,000
  returns  {lines in the log, the last lines, oldest first}
  errors   EMQARG
  clock    none
  source   EchoMQ get_job_logs ]]
-- include whole

local limit = whole(ARGV[1], 1, 1000)
if not limit then return redis.error_reply('EMQARG limit must be a whole number from 1 to 1000') end
return {redis.call('LLEN', KEYS[1]), redis.call('LRANGE', KEYS[1], -limit, -1)}
