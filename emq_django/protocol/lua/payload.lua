--[[ payload: the bytes of one job, whole
  state    unchanged
  KEYS[1]  row       emq:{q}:job:<id>, hash
  KEYS[2]  result    emq:{q}:job:<id>:result, hash
  ARGV[1]  bytes     a payload above this size stays on the server
  returns  {size or -1 (no payload), bytes or false}
  errors   EMQARG
  clock    none
  source   ours ]]
-- include whole

local most = whole(ARGV[1], 0, 1073741824)
if not most then return redis.error_reply('EMQARG bytes must be a whole number in range') end
for _, key in ipairs({KEYS[1], KEYS[2]}) do
  if redis.pcall('HEXISTS', key, 'payload') == 1 then
    local size = redis.call('HSTRLEN', key, 'payload')
    return {size, size <= most and redis.call('HGET', key, 'payload')}
  end
end
return {-1, false}
