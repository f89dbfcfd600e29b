--[[ readmit: admit a job whose first send may have got through
  state    (no row) -> pending or scheduled, unless it completed not long ago
  KEYS[1]  row       emq:{q}:job:<id>, hash; beside it <row>:done, <row>:result and <row>:relayed,
                     the marks
  KEYS[2]  base      emq:{q}:, the root of pending, schedule and the lane's keys
  ARGV[1]  id        14 bytes, JOB-namespaced
  ARGV[2]  payload   bytes, stored as they are
  ARGV[3]  lane      branded id, or empty
  ARGV[4]  mode      now | at | in
  ARGV[5]  number    at: Unix ms; in: ms from the server's now
  ARGV[6]  unique    key of which one live job may exist, or empty
  ARGV[7]  mark      ms for which <row>:relayed says that this job came in; 0 for no such mark
  returns  1 admitted | 0 these bytes live already | 2 completed since | 3 other bytes live
            | id of the live job that holds the unique key
  errors   EMQKIND EMQARG
  clock    server TIME for "in"
  source   ours ]]
-- include lanes
-- include unique
-- include clock

if string.sub(ARGV[1], 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end
local mode, due = ARGV[4], whole(ARGV[5], 0, 4503599627370496)
if not due or (mode ~= 'now' and mode ~= 'at' and mode ~= 'in') then
  return redis.error_reply('EMQARG due time must be a whole number of ms, mode now, at or in')
end
local mark = whole(ARGV[7], 0, 4503599627370496)
if not mark then return redis.error_reply('EMQARG mark must be a whole number of ms') end
if redis.call('EXISTS', KEYS[1]) == 1 then
  if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return 3 end
  return redis.call('HGET', KEYS[1], 'payload') == ARGV[2] and 0 or 3
end
-- A foreign worker leaves no mark when it completes a job, so a relay's is set when it comes in.
local marks = redis.call('EXISTS', KEYS[1] .. ':done', KEYS[1] .. ':result', KEYS[1] .. ':relayed')
if marks > 0 then return 2 end
local base, group, key = KEYS[2], ARGV[3], ARGV[6]
local holder = key ~= '' and unique_holder(base, key)
if holder then return holder end
redis.call('ZCARD', base .. 'pending')
redis.call('ZCARD', base .. 'schedule')
local lane = group ~= '' and mode == 'now' and read_lane(base, group)
if lane then redis.call('ZCARD', lane.key) end
if mode == 'in' then due = server_ms() + due end
local state = mode == 'now' and 'pending' or 'scheduled'
if mark > 0 then redis.call('SET', KEYS[1] .. ':relayed', '1', 'PX', ARGV[7]) end
redis.call('HSET', KEYS[1], 'state', state, 'attempts', '0', 'payload', ARGV[2])
if group ~= '' then redis.call('HSET', KEYS[1], 'group', group) end
if key ~= '' then
  redis.call('HSET', KEYS[1], 'unique', key)
  write_unique(base, ARGV[1], key)
end
if mode ~= 'now' then
  redis.call('ZADD', base .. 'schedule', due, ARGV[1])
elseif lane then
  redis.call('ZADD', lane.key, 0, ARGV[1])
  lane.waiting = lane.waiting + 1
  write_ring(lane)
else
  redis.call('ZADD', base .. 'pending', 0, ARGV[1])
end
return 1
