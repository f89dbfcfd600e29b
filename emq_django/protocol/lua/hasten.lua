--[[ hasten: let scheduled jobs fall due now; a promote moves them on
  state    scheduled, its due time is the server's now
  KEYS[1]  schedule  zset, score = due time (Unix ms)
  KEYS[2]  base      emq:{q}:, the root of the rows
  ARGV[1+] pairs     id and token: attempts of the run before, or empty for any; at most 1,000 pairs
  returns  one per id, in order: 1 due now | 0 not scheduled, or after a later run
  errors   none
  clock    server TIME
  source   ours ]]
-- include decimal
-- include clock

redis.call('ZCARD', KEYS[1])
local now = server_ms()
local answers = {}
for i = 1, #ARGV, 2 do
  local id, token = ARGV[i], ARGV[i + 1]
  local due = redis.call('ZSCORE', KEYS[1], id)
  local meant = due
    and (token == '' or redis.pcall('HGET', KEYS[2] .. 'job:' .. id, 'attempts') == token)
  if meant and tonumber(due) > now then redis.call('ZADD', KEYS[1], decimal(now), id) end
  answers[#answers + 1] = meant and 1 or 0
end
return answers
