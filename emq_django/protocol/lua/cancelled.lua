--[[ cancelled: which of these running jobs are to end
  state    active (nothing changes)
  KEYS[1]  base      emq:{q}:, the root of the rows
  ARGV[1+] pairs     id, token; at most 1,000 pairs
  returns  the ids whose row carries a cancel request while this token holds the job
  errors   none
  clock    none
  source   ours ]]
local asked = {}
for i = 1, #ARGV, 2 do
  local fields = redis.pcall('HMGET', KEYS[1] .. 'job:' .. ARGV[i], 'attempts', 'cancel')
  if fields[1] == ARGV[i + 1] and fields[2] then asked[#asked + 1] = ARGV[i] end
end
return asked
