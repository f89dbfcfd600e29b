--[[ reprocess: give dead jobs another life, back in the lane they came from
  state    dead -> pending, or its lane
  KEYS[1]  dead      zset, all scores 0
  KEYS[2]  pending   zset, all scores 0
  KEYS[3]  base      emq:{q}:, the root of the rows and the lanes' keys
  ARGV[1+] pairs     id and token: attempts of the run that it died of, or empty for any; at most
                     1,000 pairs
  returns  one per id, in order: 1 pending again | 0 not dead, or of a later run | -1 no row (a ghost id is dropped)
            | -2 another live job holds its unique key
  errors   none
  clock    none
  source   EchoMQ reprocess; tries start at zero, attempts are kept ]]
-- include sweep
-- include unique

local base = KEYS[3]
redis.call('ZCARD', KEYS[2])
read_unique(base)
local ids, tokens, held = {}, {}, {}
for i = 1, #ARGV, 2 do
  ids[#ids + 1] = ARGV[i]
  tokens[#ids], held[#ids] = ARGV[i + 1], redis.call('ZSCORE', KEYS[1], ARGV[i])
end
local jobs, lanes = read_batch(
  base, ids, function(state) return state == 'dead' end, {'pending', 'active', 'schedule'})

local answers, done = {}, {}
for i, id in ipairs(ids) do
  local job = jobs[i]
  local row = base .. 'job:' .. id
  local texts = job.hash and redis.call('HMGET', row, 'unique', 'last_error', 'attempts') or {}
  local key, error_text = texts[1], texts[2]
  held[i] = held[i] and not done[id]  -- named twice
  local holder = key and unique_holder(base, key)
  if job.kind == 'ghost' then
    if held[i] then
      redis.call('ZREM', KEYS[1], id)
      redis.call('DEL', row)
    end
    answers[i] = -1
  elseif tokens[i] ~= '' and texts[3] ~= tokens[i] then
    answers[i] = 0
  elseif held[i] and job.kind == 'shadow' then
    redis.call('ZREM', KEYS[1], id)
    yield_to_other_place(base, id, job)
    answers[i] = 0
  elseif not held[i] or job.kind ~= 'job' then
    answers[i] = 0
  elseif holder and holder ~= id then
    answers[i] = -2
  else
    redis.call('ZREM', KEYS[1], id)
    leave_others(id, job)
    redis.call('HDEL', row, 'last_error', 'failures', 'stalled', 'worker', 'died', 'cancel')
    if key then write_unique(base, id, key) end
    if error_text then
      put_back(base, id, job, 'previous_error', error_text)
    else
      put_back(base, id, job)
    end
    done[id] = true
    answers[i] = 1
  end
end
for _, lane in pairs(lanes) do write_ring(lane) end
return answers
