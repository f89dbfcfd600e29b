-- include counters
-- What a row is, without failing on a damaged one:
--   ghost   no row, or a skeleton without payload that a sweep of another speaker made
--   broken  not a hash, or its token is no number that HINCRBY can raise (it refuses "007")
--   job     anything else
local function read_row(row)
  local fields = redis.pcall(
    'HMGET', row, 'attempts', 'group', 'failures', 'stalled', 'worker', 'state', 'cancel')
  if fields.err then
    -- Not the row's fault (a user who may not read it): raised as it is.
    if not string.find(fields.err, 'WRONGTYPE', 1, true) then redis.call('HMGET', row, 'attempts') end
    return {kind = 'broken'}
  end
  local job = {
    kind = 'job', hash = true, attempts = fields[1] or '0', group = fields[2],
    failures = whole(fields[3], 0, 9007199254740991) or 0,
    stalled = whole(fields[4], 0, 9007199254740991) or 0, worker = fields[5],
    state = fields[6], cancelled = fields[7] and true,
  }
  if redis.call('HEXISTS', row, 'payload') == 0 then
    job.kind = 'ghost'
  elseif not whole(job.attempts, 0, 9007199254740990) or string.match(job.attempts, '^0.') then
    job.kind = 'broken'
  end
  return job
end

-- Whether the last claim was a worker's whose mark nobody cleared: the lease was lost and another
-- speaker brought the job back.
local function lost_by_worker(job)
  return job.worker and string.match(job.worker, ':(%d+)$') == job.attempts
end
