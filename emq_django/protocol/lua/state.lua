--[[ state: where a job is
  state    unchanged
  KEYS[1]  row       emq:{q}:job:<id>, hash
  KEYS[2]  base      emq:{q}:, the root of the sets
  ARGV[1]  id        as the sets hold it
  returns  pending (also in a lane) | active | scheduled | dead | awaiting_children
            | unknown (a row in no set) | absent
  errors   none
  clock    none
  source   EchoMQ state lookup; ours knows lanes ]]
local base, id = KEYS[2], ARGV[1]
local words = {pending = 'pending', active = 'active', schedule = 'scheduled', dead = 'dead'}
for _, set in ipairs({'active', 'pending', 'schedule', 'dead'}) do
  if redis.call('ZSCORE', base .. set, id) then return words[set] end
end
if redis.call('EXISTS', KEYS[1]) == 0 then return 'absent' end
local fields = redis.call('HMGET', KEYS[1], 'state', 'group')
if fields[2] and redis.call('ZSCORE', base .. 'g:' .. fields[2] .. ':pending', id) then
  return 'pending'
end
return fields[1] == 'awaiting_children' and 'awaiting_children' or 'unknown'
