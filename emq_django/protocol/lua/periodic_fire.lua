--[[ periodic_fire: enqueue the job of one slot of a schedule, once however many workers try
  state    (no row) -> pending; none where the slot is passed over
  KEYS[1]  periodic  emq:{q}:dj:periodic, hash: <field>:<name>, see protocol/periodic.py
  KEYS[2]  base      emq:{q}:, the root of the row, pending and the lane's keys
  ARGV[1]  name      the schedule's, any bytes
  ARGV[2]  slot      Unix ms for which the job is due
  ARGV[3]  id        minted by the caller, JOB-namespaced; empty: pass the slot over
  ARGV[4]  payload   bytes
  ARGV[5]  lane      branded id, or empty
  ARGV[6]  unique    key of which one live job may exist, or empty
  ARGV[7]  skipped   slots before this one that are left out
  returns  {verdict, now ms, last slot ms, id}: 1 fired or passed over | 0 another fired this slot
            or a later one | 2 the schedule is paused, the slot is passed over | 3 a live job holds the
            unique key, the slot is passed over | -1 the id is taken | -2 the slot is still to come
  errors   EMQKIND EMQARG
  clock    server TIME
  source   ours ]]
-- include lanes
-- include unique
-- include decimal
-- include clock

local name, slot, id = ARGV[1], whole(ARGV[2], 0, 4503599627370496), ARGV[3]
local skipped = whole(ARGV[7], 0, 4503599627370496)
if not slot or not skipped then
  return redis.error_reply('EMQARG slot and skipped must be whole numbers')
end
if id ~= '' and string.sub(id, 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end
local base, group, key = KEYS[2], ARGV[5], ARGV[6]
local kept = redis.call('HMGET', KEYS[1], 'slot:' .. name, 'id:' .. name, 'paused:' .. name)
local last = whole(kept[1], 0, 4503599627370496) or -1
redis.call('ZCARD', base .. 'pending')
local lane = id ~= '' and group ~= '' and read_lane(base, group)
if lane then redis.call('ZCARD', lane.key) end
local holder = id ~= '' and key ~= '' and unique_holder(base, key)
local row = base .. 'job:' .. id
local taken = id ~= '' and redis.call('EXISTS', row) == 1
local now = server_ms()
if slot > now then return {-2, now, last, ''} end
-- A slot far ahead was fired while this server's clock was wrong: it holds nothing up.
if last >= slot and last <= now + 60000 then return {0, now, last, kept[2] or ''} end
if taken then return {-1, now, last, ''} end

redis.call('HSET', KEYS[1], 'slot:' .. name, decimal(slot))
if kept[3] then return {2, now, slot, ''} end
if holder then return {3, now, slot, holder} end
if id == '' then return {1, now, slot, ''} end
redis.call('HSET', KEYS[1], 'id:' .. name, id, 'at:' .. name, decimal(now),
  'skipped:' .. name, decimal(skipped))
redis.call('HSET', row, 'state', 'pending', 'attempts', '0', 'payload', ARGV[4])
if group ~= '' then redis.call('HSET', row, 'group', group) end
if key ~= '' then
  redis.call('HSET', row, 'unique', key)
  write_unique(base, id, key)
end
if lane then
  redis.call('ZADD', lane.key, 0, id)
  lane.waiting = lane.waiting + 1
  write_ring(lane)
else
  redis.call('ZADD', base .. 'pending', 0, id)
end
return {1, now, slot, id}
