-- Whether a lease is over although the id stands in active: a sweep, a retry or a delay has ended it
-- (and its lane counts it no more), then another speaker's extend brought the entry back.
local function lease_ended(state)
  return state == 'pending' or state == 'scheduled' or state == 'dead'
end

-- Whether a waiting id is that of a job under lease: another speaker's reprocess left a second entry,
-- which must not be handed out.
local function is_running(active, id, job)
  return job.kind == 'job' and job.state == 'active' and redis.call('ZSCORE', active, id) ~= false
end
