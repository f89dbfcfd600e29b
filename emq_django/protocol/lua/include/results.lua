-- include decimal
-- What a job leaves: the errors of its runs, one JSON text a line, and its result.
local ERRORS_BYTES = 12288

-- Adds a line to the row's errors; the oldest lines go when there is no room.
local function add_error(row, record)
  if not record or record == '' then return end
  local errors = redis.call('HGET', row, 'errors')
  errors = errors and errors .. '\n' .. record or record
  while #errors > ERRORS_BYTES do
    local cut = string.find(errors, '\n', 1, true)
    if not cut then break end
    errors = string.sub(errors, cut + 1)
  end
  redis.call('HSET', row, 'errors', errors)
end

-- The row becomes the result, whatever stood there, so that nothing is copied. The last `kept` ids
-- stay in dj:finished (the caller has read its type). `args` holds field, value pairs from `first` to
-- `last`.
local function keep_result(base, id, ttl, most, kept, now, args, first, last)
  local row = base .. 'job:' .. id
  local result = row .. ':result'
  redis.call('RENAME', row, result)
  redis.call('HDEL', result, 'worker', 'unique', 'parked', 'cancel')
  if redis.call('HSTRLEN', result, 'payload') > most then redis.call('HDEL', result, 'payload') end
  redis.call('HSET', result, 'state', 'completed', 'finished', decimal(now))
  for i = first, last - 1, 2 do redis.call('HSET', result, args[i], args[i + 1]) end
  redis.call('PEXPIRE', result, decimal(ttl))
  redis.call('PEXPIRE', row .. ':logs', decimal(ttl))
  if kept > 0 then
    redis.call('ZADD', base .. 'dj:finished', decimal(now), id)
    redis.call('ZREMRANGEBYRANK', base .. 'dj:finished', 0, -kept - 1)
  end
end
