--[[ tally: how many members of a set lie within bounds
  state    unchanged
  KEYS[1]  set       pending, dead, a lane (scores 0) or active, schedule, dj:finished (scores in ms)
  ARGV[1]  order     lex: bounds are ids, both exclusive | score: bounds are scores, both inclusive
  ARGV[2]  low       or empty
  ARGV[3]  high      or empty
  returns  their number
  errors   EMQARG
  clock    none
  source   ours ]]
if ARGV[1] == 'score' then
  if (ARGV[2] ~= '' and not tonumber(ARGV[2])) or (ARGV[3] ~= '' and not tonumber(ARGV[3])) then
    return redis.error_reply('EMQARG bounds must be numbers')
  end
  local low, high = ARGV[2] == '' and '-inf' or ARGV[2], ARGV[3] == '' and '+inf' or ARGV[3]
  return redis.call('ZCOUNT', KEYS[1], low, high)
end
local low, high = ARGV[2] == '' and '-' or '(' .. ARGV[2], ARGV[3] == '' and '+' or '(' .. ARGV[3]
return redis.call('ZLEXCOUNT', KEYS[1], low, high)
