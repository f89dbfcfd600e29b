--[[ limit_queue: set or remove a queue's ceilings
  state    unchanged
  KEYS[1]  meta         hash, fields concurrency, max and window_ms
  ARGV[1]  concurrency  jobs in flight at most; empty removes the ceiling
  ARGV[2]  max          jobs started per window at most; empty removes the ceiling
  ARGV[3]  window       ms
  returns  1
  errors   EMQARG
  clock    none
  source   EchoMQ names both fields and enforces neither; our take does ]]
-- include whole
-- include decimal

local window = whole(ARGV[3], 1, 4503599627370496)
local numbers = {concurrency = whole(ARGV[1], 0, 4503599627370496), max = whole(ARGV[2], 0, 4503599627370496)}
if not window or (ARGV[1] ~= '' and not numbers.concurrency) or (ARGV[2] ~= '' and not numbers.max) then
  return redis.error_reply('EMQARG concurrency, max and window must be whole numbers')
end
for _, field in ipairs({'concurrency', 'max'}) do
  if numbers[field] then
    redis.call('HSET', KEYS[1], field, decimal(numbers[field]))
  else
    redis.call('HDEL', KEYS[1], field)
  end
end
if numbers.max then
  redis.call('HSET', KEYS[1], 'window_ms', decimal(window))
else
  redis.call('HDEL', KEYS[1], 'window_ms')
end
return 1
