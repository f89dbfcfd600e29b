--[[ hasten: let scheduled jobs fall due now; a promote moves them on
  state    scheduled, its due time is the server's now
  KEYS[1]  schedule  zset, score = due time (Unix ms)
  ARGV[1+] ids       at most 1,000
  returns  one per id, in order: 1 due now | 0 not scheduled
  errors   none
  clock    server TIME
  source   ours ]]
-- include decimal
-- include clock

redis.call('ZCARD', KEYS[1])
local now = server_ms()
local answers = {}
for i, id in ipairs(ARGV) do
  local due = redis.call('ZSCORE', KEYS[1], id)
  if due and tonumber(due) > now then redis.call('ZADD', KEYS[1], decimal(now), id) end
  answers[i] = due and 1 or 0
end
return answers
