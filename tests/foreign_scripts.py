"""The original's transitions in Lua, written from its contract for `tests.foreign`."""

from __future__ import annotations

# What the original's lane scripts have in common: B is the root that an argument carries.
RING = """
local function open(B, g)
  local limit = redis.call('HGET', B .. 'glimit', g)
  local busy = tonumber(redis.call('HGET', B .. 'gactive', g) or '0')
  return redis.call('SISMEMBER', B .. 'paused', g) == 0 and (not limit or busy < tonumber(limit))
end
local function join(B, g)
  if open(B, g) and not redis.call('LPOS', B .. 'ring', g) then
    redis.call('RPUSH', B .. 'ring', g)
    redis.call('LPUSH', B .. 'wake', '1')
    redis.call('LTRIM', B .. 'wake', 0, 63)
  end
end
local function lower(B, g)
  local left = redis.call('HINCRBY', B .. 'gactive', g, -1)
  if left <= 0 then redis.call('HDEL', B .. 'gactive', g) end
end
local function lane(B, g) return B .. 'g:' .. g .. ':pending' end
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
local function back(B, id)
  local g = redis.call('HGET', B .. 'job:' .. id, 'group')
  if g then
    redis.call('ZADD', lane(B, g), 0, id)
    join(B, g)
  else
    redis.call('ZADD', B .. 'pending', 0, id)
  end
  redis.call('HSET', B .. 'job:' .. id, 'state', 'pending')
end
local function left_active(B, id)
  local g = redis.call('HGET', B .. 'job:' .. id, 'group')
  local was = redis.call('ZREM', B .. 'active', id)
  if g and was == 1 then
    lower(B, g)
    if redis.call('ZCARD', lane(B, g)) > 0 then join(B, g) end
  elseif g then
    redis.call('ZREM', lane(B, g), id)
    if redis.call('ZCARD', lane(B, g)) == 0 then redis.call('LREM', B .. 'ring', 0, g) end
  elseif was == 0 then
    redis.call('ZREM', B .. 'pending', id)
  end
end
local function start(B, id, deadline)
  local row = B .. 'job:' .. id
  local attempts = redis.call('HINCRBY', row, 'attempts', 1)
  redis.call('HSET', row, 'state', 'active')
  redis.call('ZADD', B .. 'active', deadline, id)
  return attempts
end
"""

SCRIPTS = {
    # K row, pending; A id, payload
    "enqueue": """
if string.sub(ARGV[1], 1, 3) ~= 'JOB' then return redis.error_reply('EMQKIND job id') end
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'state', 'pending', 'attempts', '0', 'payload', ARGV[2])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return 1""",
    # K row, schedule; A id, payload, mode, number
    "schedule": """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local due = tonumber(ARGV[4])
if ARGV[3] == 'in' then due = now() + due end
redis.call('HSET', KEYS[1], 'state', 'scheduled', 'attempts', '0', 'payload', ARGV[2])
redis.call('ZADD', KEYS[2], due, ARGV[1])
return 1""",
    # K pending, active, B; A lease: the published form, which makes a row for a ghost
    "claim": """
local popped = redis.call('ZPOPMIN', KEYS[1])
if #popped == 0 then return {} end
local attempts = start(KEYS[3], popped[1], now() + tonumber(ARGV[1]))
return {popped[1], redis.call('HGET', KEYS[3] .. 'job:' .. popped[1], 'payload'), attempts}""",
    # The specification's form: a ghost is consumed and answers empty
    "claim_guarded": """
local popped = redis.call('ZPOPMIN', KEYS[1])
if #popped == 0 then return {} end
local row = KEYS[3] .. 'job:' .. popped[1]
if redis.call('EXISTS', row) == 0 then return {} end
local attempts = start(KEYS[3], popped[1], now() + tonumber(ARGV[1]))
return {popped[1], redis.call('HGET', row, 'payload'), attempts}""",
    # K pending, active, B; A lease, size
    "claim_batch": """
local jobs, deadline = {}, now() + tonumber(ARGV[1])
for i = 1, math.min(tonumber(ARGV[2]), redis.call('ZCARD', KEYS[1])) do
  local id = redis.call('ZPOPMIN', KEYS[1])[1]
  local attempts = start(KEYS[3], id, deadline)
  jobs[i] = {id, redis.call('HGET', KEYS[3] .. 'job:' .. id, 'payload'), attempts}
end
return jobs""",
    # K active, row; A id, token, B
    "complete": """
local token = redis.call('HGET', KEYS[2], 'attempts')
if not token then return 0 end
if token ~= ARGV[2] then return redis.error_reply('EMQSTALE token') end
left_active(ARGV[3], ARGV[1])
redis.call('DEL', KEYS[2])
redis.call('HINCRBY', ARGV[3] .. 'metrics:completed', 'count', 1)
return 1""",
    # K active, schedule, dead, row; A id, token, delay, max, error, B
    "retry": """
local token = redis.call('HGET', KEYS[4], 'attempts')
if not token then return redis.error_reply('EMQSTALE job gone') end
if token ~= ARGV[2] then return redis.error_reply('EMQSTALE token') end
left_active(ARGV[6], ARGV[1])
redis.call('HSET', KEYS[4], 'last_error', ARGV[5])
if tonumber(token) >= tonumber(ARGV[4]) then
  redis.call('HSET', KEYS[4], 'state', 'dead')
  redis.call('ZADD', KEYS[3], 0, ARGV[1])
  redis.call('HINCRBY', ARGV[6] .. 'metrics:failed', 'count', 1)
  return 'dead'
end
redis.call('HSET', KEYS[4], 'state', 'scheduled')
redis.call('ZADD', KEYS[2], now() + tonumber(ARGV[3]), ARGV[1])
return 'scheduled'""",
    # K row, active, schedule; A id, token, mode, number
    "delay": """
local token = redis.call('HGET', KEYS[1], 'attempts')
if not token then return redis.error_reply('EMQSTALE job gone') end
if token ~= ARGV[2] then return redis.error_reply('EMQSTALE token') end
local due = tonumber(ARGV[4])
if ARGV[3] == 'in' then due = now() + due end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HSET', KEYS[1], 'state', 'scheduled')
redis.call('ZADD', KEYS[3], due, ARGV[1])
return 1""",
    # K schedule, pending; A B, batch
    "promote": """
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now(), 'LIMIT', 0, tonumber(ARGV[2]))
for _, id in ipairs(ids) do
  redis.call('ZREM', KEYS[1], id)
  back(ARGV[1], id)
end
return #ids""",
    # K active, pending; A B
    "reap": """
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now(), 'LIMIT', 0, 100)
for _, id in ipairs(ids) do
  local g = redis.call('HGET', ARGV[1] .. 'job:' .. id, 'group')
  redis.call('ZREM', KEYS[1], id)
  if g then lower(ARGV[1], g) end
  back(ARGV[1], id)
end
return #ids""",
    # K active, B; A group, limit
    "reap_group": """
local count = 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now(), 'LIMIT', 0, ARGV[2])) do
  if redis.call('HGET', KEYS[2] .. 'job:' .. id, 'group') == ARGV[1] then
    redis.call('ZREM', KEYS[1], id)
    lower(KEYS[2], ARGV[1])
    back(KEYS[2], id)
    count = count + 1
  end
end
return count""",
    # K active, pending, dead; A B, max, limit
    "stalled": """
local B, recovered, dead = ARGV[1], {}, {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now(), 'LIMIT', 0, ARGV[3])) do
  local row = B .. 'job:' .. id
  local g = redis.call('HGET', row, 'group')
  redis.call('ZREM', KEYS[1], id)
  local stalled = redis.call('HINCRBY', row, 'stalled', 1)
  if g then lower(B, g) end
  if stalled >= tonumber(ARGV[2]) then
    redis.call('HSET', row, 'state', 'dead', 'last_error', 'stalled')
    redis.call('ZADD', KEYS[3], 0, id)
    redis.call('HINCRBY', B .. 'metrics:failed', 'count', 1)
    if g and redis.call('ZCARD', lane(B, g)) > 0 then join(B, g) end
    dead[#dead + 1] = id
  else
    back(B, id)
    recovered[#recovered + 1] = id
  end
end
return {recovered, dead}""",
    # K active, row; A id, token, lease
    "extend": """
local token = redis.call('HGET', KEYS[2], 'attempts')
if not token then return -1 end
if token ~= ARGV[2] then return redis.error_reply('EMQSTALE token') end
redis.call('ZADD', KEYS[1], now() + tonumber(ARGV[3]), ARGV[1])
return 1""",
    # K active; A B, lease, id, token, ...
    "extend_many": """
local lost, deadline = {}, now() + tonumber(ARGV[2])
for i = 3, #ARGV, 2 do
  if redis.call('HGET', ARGV[1] .. 'job:' .. ARGV[i], 'attempts') == ARGV[i + 1] then
    redis.call('ZADD', KEYS[1], deadline, ARGV[i])
  else
    lost[#lost + 1] = ARGV[i]
  end
end
return lost""",
    # K row, dead, pending; A id
    "reprocess": """
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 then return redis.error_reply('EMQSTATE not dead') end
redis.call('HDEL', KEYS[1], 'last_error')
redis.call('HSET', KEYS[1], 'state', 'pending')
redis.call('ZADD', KEYS[3], 0, ARGV[1])
return 1""",
    # K row, pending, active, schedule, dead; A id
    "remove": """
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
if redis.call('EXISTS', KEYS[1] .. ':lock') == 1 or redis.call('HEXISTS', KEYS[1], 'lock') == 1 then
  return redis.error_reply('EMQLOCK held')
end
for i = 2, 5 do redis.call('ZREM', KEYS[i], ARGV[1]) end
redis.call('DEL', KEYS[1], KEYS[1] .. ':logs')
return 1""",
    # K row; A payload
    "update_payload": """
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
redis.call('HSET', KEYS[1], 'payload', ARGV[1])
return 1""",
    # K B, pending
    "drain": """
local ids = redis.call('ZRANGE', KEYS[2], 0, -1)
for _, id in ipairs(ids) do redis.call('DEL', KEYS[1] .. 'job:' .. id) end
redis.call('DEL', KEYS[2])
return #ids""",
    # K row, lane, B; A id, payload, group
    "lane_enqueue": """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'state', 'pending', 'attempts', '0', 'payload', ARGV[2],
  'group', ARGV[3])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
join(KEYS[3], ARGV[3])
return 1""",
    # K ring, active; A B, lease
    "lane_claim": """
local B = ARGV[1]
local g = redis.call('LMOVE', KEYS[1], KEYS[1], 'LEFT', 'RIGHT')
if not g then return {} end
local popped = redis.call('ZPOPMIN', lane(B, g))
if #popped == 0 then
  redis.call('LREM', KEYS[1], 0, g)
  return {}
end
local attempts = start(B, popped[1], now() + tonumber(ARGV[2]))
redis.call('HINCRBY', B .. 'gactive', g, 1)
if not open(B, g) or redis.call('ZCARD', lane(B, g)) == 0 then
  redis.call('LREM', KEYS[1], 0, g)
end
return {popped[1], redis.call('HGET', B .. 'job:' .. popped[1], 'payload'), attempts, g}""",
    # K ring, active; A B, lease
    "weighted_claim": """
local B, jobs = ARGV[1], {}
local g = redis.call('LMOVE', KEYS[1], KEYS[1], 'LEFT', 'RIGHT')
if not g then return {} end
local k = math.max(tonumber(redis.call('HGET', B .. 'gweight', g) or '1'), 1)
local limit = redis.call('HGET', B .. 'glimit', g)
local busy = tonumber(redis.call('HGET', B .. 'gactive', g) or '0')
k = math.min(k, redis.call('ZCARD', lane(B, g)), limit and tonumber(limit) - busy or k)
local deadline = now() + tonumber(ARGV[2])
for i = 1, k do
  local id = redis.call('ZPOPMIN', lane(B, g))[1]
  local attempts = start(B, id, deadline)
  redis.call('HINCRBY', B .. 'gactive', g, 1)
  jobs[i] = {id, redis.call('HGET', B .. 'job:' .. id, 'payload'), attempts, g}
end
if not open(B, g) or redis.call('ZCARD', lane(B, g)) == 0 then redis.call('LREM', KEYS[1], 0, g) end
return jobs""",
    # K B; A group
    "lane_pause": """
redis.call('SADD', KEYS[1] .. 'paused', ARGV[1])
redis.call('LREM', KEYS[1] .. 'ring', 0, ARGV[1])
return 1""",
    "lane_resume": """
redis.call('SREM', KEYS[1] .. 'paused', ARGV[1])
if redis.call('ZCARD', lane(KEYS[1], ARGV[1])) > 0 then join(KEYS[1], ARGV[1]) end
return 1""",
    # K B; A group, limit
    "lane_limit": """
redis.call('HSET', KEYS[1] .. 'glimit', ARGV[1], ARGV[2])
if not open(KEYS[1], ARGV[1]) then
  redis.call('LREM', KEYS[1] .. 'ring', 0, ARGV[1])
elseif redis.call('ZCARD', lane(KEYS[1], ARGV[1])) > 0 then
  join(KEYS[1], ARGV[1])
end
return 1""",
    # K row, destination lane, B; A id, group
    "reassign": """
local B, g = KEYS[3], redis.call('HGET', KEYS[1], 'group')
if not g then return -1 end
if g == ARGV[2] then return 0 end
if redis.call('ZREM', lane(B, g), ARGV[1]) == 0 then return -2 end
redis.call('ZADD', KEYS[2], 0, ARGV[1])
redis.call('HSET', KEYS[1], 'group', ARGV[2])
join(B, ARGV[2])
if redis.call('ZCARD', lane(B, g)) == 0 then redis.call('LREM', B .. 'ring', 0, g) end
return 1""",
    # K B, lane, ring; A group
    "lane_drain": """
local ids = redis.call('ZRANGE', KEYS[2], 0, -1)
for _, id in ipairs(ids) do redis.call('DEL', KEYS[1] .. 'job:' .. id) end
redis.call('DEL', KEYS[2])
redis.call('LREM', KEYS[3], 0, ARGV[1])
return #ids""",
    # K meta, B; A force or "", budget. Rows go in one DEL; lanes only by ring and pause.
    "obliterate": """
local B, budget = KEYS[2], tonumber(ARGV[2])
if redis.call('HEXISTS', KEYS[1], 'paused') == 0 then
  return redis.error_reply('EMQSTATE not paused')
end
if ARGV[1] == '' and redis.call('ZCARD', B .. 'active') > 0 then
  return redis.error_reply('EMQSTATE active')
end
local function empty(set)
  local ids = redis.call('ZRANGE', set, 0, budget - 1)
  if #ids == 0 then return false end
  for _, id in ipairs(ids) do redis.call('DEL', B .. 'job:' .. id) end
  redis.call('ZREM', set, unpack(ids))
  return true
end
for _, set in ipairs({'active', 'pending', 'schedule', 'dead'}) do
  if empty(B .. set) then return 1 end
end
for _, g in ipairs(redis.call('LRANGE', B .. 'ring', 0, -1)) do
  if empty(lane(B, g)) then return 1 end
end
for _, g in ipairs(redis.call('SMEMBERS', B .. 'paused')) do
  if empty(lane(B, g)) then return 1 end
end
redis.call('DEL', B .. 'ring', B .. 'paused', B .. 'glimit', B .. 'gactive', B .. 'wake', KEYS[1],
  B .. 'metrics:completed', B .. 'metrics:failed')
return 0""",
    # K repeat, record; A name, every, template, first
    "repeat_register": """
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
redis.call('HSET', KEYS[2], 'every_ms', ARGV[2], 'template', ARGV[3])
redis.call('ZADD', KEYS[1], ARGV[4], ARGV[1])
return 1""",
    # K repeat, record; A name, next
    "repeat_advance": """
if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return 0
end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
return 1""",
}
