--[[ periodic_look: what is known of schedules
  state    unchanged
  KEYS[1]  periodic  emq:{q}:dj:periodic, hash: <field>:<name>, see protocol/periodic.py
  ARGV[1+] names     the schedules', at most 1,000
  returns  {now ms, {slot, id, at, skipped, paused} per name, each '' where there is none}
  errors   EMQARG
  clock    server TIME
  source   ours ]]
-- include clock

if #ARGV > 1000 then return redis.error_reply('EMQARG ask for 1,000 schedules at most') end
redis.call('HLEN', KEYS[1])
local found = {}
for i, name in ipairs(ARGV) do
  local kept = redis.call('HMGET', KEYS[1], 'slot:' .. name, 'id:' .. name, 'at:' .. name,
    'skipped:' .. name, 'paused:' .. name)
  for place = 1, 5 do kept[place] = kept[place] or '' end
  found[i] = kept
end
return {server_ms(), found}
