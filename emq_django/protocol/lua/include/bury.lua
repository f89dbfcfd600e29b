-- include counters
-- include unique
-- To the dead set with the reason on the row. The caller has taken the id out of its set, has read
-- the types of dead and metrics:failed, and counts the deaths: bury_count writes them once.
-- `died` names the claim it is about: where another speaker has revived the job it is void.
local function bury(base, id, job, reason, now)
  local row = base .. 'job:' .. id
  if job.hash then
    redis.call('HSET', row, 'state', 'dead', 'last_error', reason,
      'died', decimal(now) .. ':' .. job.attempts)
    redis.call('HDEL', row, 'worker', 'cancel')
    free_unique(base, id, redis.call('HGET', row, 'unique'))
  end
  redis.call('ZADD', base .. 'dead', 0, id)
end

local function bury_read(base)
  redis.call('ZCARD', base .. 'dead')
  return read_counter(base .. 'metrics:failed', 'count')
end

local function bury_count(base, before, deaths)
  if deaths > 0 then write_counter(base .. 'metrics:failed', 'count', before + deaths) end
end

local BROKEN = 'damaged row: not a hash, or attempts is no number'
local CANCELLED = 'cancelled: asked to end while a worker ran it'
