-- What a list shows of a job. The size is asked for before the value: cutting a big one in here
-- would hold the server.
local function blob(row, field, most)
  local size = redis.call('HSTRLEN', row, field)
  return size, size > 0 and size <= most and redis.call('HGET', row, field)
end

local function facts_of(row, id, score, most)
  local size = redis.pcall('HSTRLEN', row, 'payload')
  if type(size) ~= 'number' then
    return {id, score, 1, false, false, false, false, false, false, 0, false, 0, false, false, false,
      false}
  end
  local fits = size > 0 and size <= most  -- then it comes along: a call less for each job
  local f = redis.call(
    'HMGET', row, 'state', 'attempts', 'group', 'failures', 'stalled', 'worker', 'taken', 'task', 'died',
    fits and 'payload' or 'state')
  local error_size, error_text = 0, false
  if f[1] ~= 'pending' or f[2] ~= '0' then  -- a job that never ran has none
    error_size, error_text = blob(row, 'last_error', most)
  end
  local exists = (f[1] or f[2] or size > 0) and 1 or redis.call('EXISTS', row)
  return {
    id, score, exists, f[1], f[2], f[3], f[4], f[5], f[6],
    size, fits and f[10], error_size, error_text, f[7], f[8], f[9],
  }
end
