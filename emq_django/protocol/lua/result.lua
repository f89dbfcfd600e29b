--[[ result: what is known of a job that may have ended: its row, else the result it left
  state    unchanged
  KEYS[1]  row       emq:{q}:job:<id>, hash
  KEYS[2]  result    emq:{q}:job:<id>:result, hash
  ARGV[1+] fields    names, at most 64
  returns  {row | result | '' (neither), a value or false per field}
  errors   none
  clock    none
  source   ours ]]
if redis.call('HEXISTS', KEYS[1], 'payload') == 1 then
  return {'row', redis.call('HMGET', KEYS[1], unpack(ARGV))}
end
-- A key of another type is nobody's result.
if redis.call('TYPE', KEYS[2]).ok == 'hash' then
  return {'result', redis.call('HMGET', KEYS[2], unpack(ARGV))}
end
return {'', {}}
