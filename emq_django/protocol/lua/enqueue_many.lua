--[[ enqueue_many: admit several jobs to the flat pending set or to one lane
  state    (no row) -> pending
  KEYS[1]  target    pending, or emq:{q}:g:<lane>:pending; zset, all scores 0
  KEYS[2]  base      emq:{q}:, the root of the rows and of the lane's keys
  ARGV[1]  lane      branded id, or empty for the flat set
  ARGV[2+] pairs     id, payload; at most 1,000 pairs
  returns  one per pair, in order: 1 admitted | 0 a row with this id exists
  errors   EMQARG EMQKIND, for any id before the first write
  clock    none
  source   EchoMQ enqueue_many (there a pipeline of enqueues) ]]
-- include lanes

if #ARGV % 2 == 0 or #ARGV > 2001 then
  return redis.error_reply('EMQARG give an id and a payload per job, for 1,000 jobs at most')
end
for i = 2, #ARGV, 2 do
  if string.sub(ARGV[i], 1, 3) ~= 'JOB' then
    return redis.error_reply('EMQKIND job id must be JOB-namespaced')
  end
end
redis.call('ZCARD', KEYS[1])
local group = ARGV[1]
local lane = group ~= '' and read_lane(KEYS[2], group)
local verdicts = {}
local members = {}
for i = 2, #ARGV, 2 do
  local row = KEYS[2] .. 'job:' .. ARGV[i]
  if redis.call('EXISTS', row) == 1 then
    verdicts[#verdicts + 1] = 0
  else
    if lane then
      redis.call('HSET', row, 'state', 'pending', 'attempts', '0', 'payload', ARGV[i + 1], 'group', group)
    else
      redis.call('HSET', row, 'state', 'pending', 'attempts', '0', 'payload', ARGV[i + 1])
    end
    verdicts[#verdicts + 1] = 1
    members[#members + 1] = 0
    members[#members + 1] = ARGV[i]
  end
end
if #members > 0 then
  redis.call('ZADD', KEYS[1], unpack(members))
  if lane then
    lane.waiting = lane.waiting + #members / 2
    write_ring(lane)
  end
end
return verdicts
