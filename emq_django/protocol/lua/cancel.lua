--[[ cancel: remove jobs that wait, and ask the workers of those that run to end them
  state    pending, scheduled -> (no row); active stays active
  KEYS[1]  base      emq:{q}:, the root of the sets, the rows and the lanes' keys
  ARGV[1+] ids       at most 1,000
  returns  one per id, in order: 1 removed | 2 active, its row says now that it is to end | 0 dead,
            left alone | -1 no row (ghost ids are dropped) | -2 locked by another speaker
  errors   none
  clock    server TIME
  source   ours: no later claim hands such a job out, whoever brings it back ]]
-- include discard
-- include decimal
-- include clock

local base = KEYS[1]
discard_read(base)
local now = server_ms()

local function cancel_one(id)
  local job = read_standing(base, id)
  if job.locked then return -2 end
  if job.hash and job.there and job.active then
    redis.call('HSET', base .. 'job:' .. id, 'cancel', decimal(now))
    return 2
  end
  if job.there and redis.call('ZSCORE', base .. 'dead', id) and job.state == 'dead' then return 0 end
  discard(base, id, job)
  return job.there and 1 or -1
end

local answers = {}
for i, id in ipairs(ARGV) do answers[i] = cancel_one(id) end
return answers
