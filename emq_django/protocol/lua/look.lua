--[[ look: whether a take is worth its trip now, and when one will be
  state    unchanged
  KEYS[1]  base      emq:{q}:, the root of all keys read
  returns  {now ms, 1 where a take would find something, first due time or '',
            ms for which the rate is used up or 0, 1 where the jobs in flight hold a take back,
            worker trees that listen for changes of this queue}
  errors   none
  clock    server TIME
  source   ours ]]
-- include ceilings
-- include decimal
-- include clock

local base = KEYS[1]
local now = server_ms()
local due = redis.call('ZRANGE', base .. 'schedule', 0, 0, 'WITHSCORES')[2] or ''
local waiting = redis.call('ZCARD', base .. 'pending') + redis.call('LLEN', base .. 'ring')
local trees = redis.pcall('PUBSUB', 'NUMSUB', base .. 'dj:trees')[2] or 0
local paused = redis.call('HEXISTS', base .. 'meta', 'paused') == 1
if paused or waiting == 0 then return {decimal(now), 0, due, 0, 0, trees} end
local ceilings = read_ceilings(base, redis.call('ZCARD', base .. 'active'))
if ceilings.room > 0 then return {decimal(now), 1, due, 0, 0, trees} end
return {decimal(now), 0, due, ceilings.wait_ms, ceilings.wait_ms == 0 and 1 or 0, trees}
