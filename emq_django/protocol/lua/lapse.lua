--[[ lapse: let leases end now; a reap brings the jobs back
  state    active, the end of its lease is the server's now
  KEYS[1]  active    zset, score = lease end (Unix ms)
  KEYS[2]  base      emq:{q}:, the root of the rows
  ARGV[1+] pairs     id and token: attempts as the claim raised them, or empty for any claim; at most
                     1,000 pairs
  returns  one per pair, in order: 1 over now | 0 not active, or under another claim
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
  local lease_end = redis.call('ZSCORE', KEYS[1], id)
  local held = lease_end
    and (token == '' or redis.pcall('HGET', KEYS[2] .. 'job:' .. id, 'attempts') == token)
  if held and tonumber(lease_end) > now then redis.call('ZADD', KEYS[1], decimal(now), id) end
  answers[#answers + 1] = held and 1 or 0
end
return answers
