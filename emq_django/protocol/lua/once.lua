--[[ once: mark that a form was sent, so that what it asks for is not done by a second send
  state    unchanged
  KEYS[1]  mark      emq:{q}:dj:once:<send>, string
  ARGV[1]  ms        for which the mark stays, 1 or more
  returns  1 marked now | 0 it was sent before
  errors   EMQARG
  clock    none
  source   ours ]]
-- include whole

if not whole(ARGV[1], 1, 4503599627370496) then
  return redis.error_reply('EMQARG ms must be a whole number, 1 or more')
end
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])
return 1
