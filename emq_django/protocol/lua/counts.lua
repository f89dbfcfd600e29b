--[[ counts: a queue's figures at one moment
  state    unchanged
  KEYS[1]  base      emq:{q}:, the root of all keys read
  returns  {now ms, paused 0|1, pending, active, scheduled, dead, lanes, jobs waiting in lanes,
            lanes added up, completed, failed, expired leases, end of the oldest expired lease or '',
            first due time or '', head of pending or ''}
  errors   none
  clock    server TIME
  source   EchoMQ counts, with the lanes it leaves out ]]
-- include counters
-- include known_lanes
-- include clock

local base = KEYS[1]
local now = server_ms()
local MOST = 1000
local lanes = known_lanes(base, MOST)
local waiting, added = 0, #lanes
for i = 1, added do
  local depth = redis.pcall('ZCARD', base .. 'g:' .. lanes[i] .. ':pending')
  if type(depth) == 'number' then waiting = waiting + depth end
end

local expired = redis.call('ZCOUNT', base .. 'active', '-inf', decimal(now))
local first_active = redis.call('ZRANGE', base .. 'active', 0, 0, 'WITHSCORES')
local first_due = redis.call('ZRANGE', base .. 'schedule', 0, 0, 'WITHSCORES')
return {
  decimal(now), redis.call('HEXISTS', base .. 'meta', 'paused'),
  redis.call('ZCARD', base .. 'pending'), redis.call('ZCARD', base .. 'active'),
  redis.call('ZCARD', base .. 'schedule'), redis.call('ZCARD', base .. 'dead'),
  math.max(#lanes, redis.call('LLEN', base .. 'ring')), waiting, added,
  decimal(read_counter(base .. 'metrics:completed', 'count')),
  decimal(read_counter(base .. 'metrics:failed', 'count')),
  expired, expired > 0 and first_active[2] or '', first_due[2] or '',
  redis.call('ZRANGE', base .. 'pending', 0, 0)[1] or '',
}
