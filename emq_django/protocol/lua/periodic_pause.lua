--[[ periodic_pause: stop a schedule from firing, or let it fire again
  state    unchanged
  KEYS[1]  periodic  emq:{q}:dj:periodic, hash: <field>:<name>, see protocol/periodic.py
  ARGV[1]  name      the schedule's, any bytes
  ARGV[2]  paused    1 pauses | 0 resumes; slots of the pause are not made up for
  returns  1 changed | 0 it was so already
  errors   none
  clock    server TIME
  source   ours ]]
-- include decimal
-- include clock

local name, field = ARGV[1], 'paused:' .. ARGV[1]
local now = decimal(server_ms())
if ARGV[2] == '1' then
  local was = redis.call('HEXISTS', KEYS[1], field)
  if was == 0 then redis.call('HSET', KEYS[1], field, now) end
  return 1 - was
end
if redis.call('HDEL', KEYS[1], field) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'slot:' .. name, now)
return 1
