--[[ remove: take jobs off the queue for good, with all that is theirs
  state    any -> (no row)
  KEYS[1]  base      emq:{q}:, the root of the sets, the rows and the lanes' keys
  ARGV[1]  active    1 also removes a job that a worker holds; else it is left alone
  ARGV[2]  dedup     id of a dedup key emq:{q}:de:<dedup> that goes with the first id, or empty
  ARGV[3+] ids       at most 1,000
  returns  one per id, in order: 1 removed | 0 active, left alone | -1 no row (ghost ids are dropped)
            | -2 locked by another speaker
  errors   none
  clock    none
  source   EchoMQ remove_job; lanes and their counters included ]]
-- include discard

local base = KEYS[1]
discard_read(base)

local function remove_one(id)
  local job = read_standing(base, id)
  if job.locked then return -2 end
  if job.there and job.active and ARGV[1] ~= '1' then return 0 end
  discard(base, id, job)
  return job.there and 1 or -1
end

local answers = {}
for i = 3, #ARGV do answers[#answers + 1] = remove_one(ARGV[i]) end
if ARGV[2] ~= '' and answers[1] == 1 and redis.pcall('GET', base .. 'de:' .. ARGV[2]) == ARGV[3] then
  redis.call('DEL', base .. 'de:' .. ARGV[2])
end
return answers
