--[[ marked: find the active jobs that carry a worker's mark, a part of the set per call
  state    unchanged
  KEYS[1]  active    zset, score = lease end (ms)
  KEYS[2]  base      emq:{q}:, the root of the rows
  ARGV[1]  worker    the incarnation whose mark is looked for
  ARGV[2]  cursor    0 at first, then what the last call answered
  ARGV[3]  count     about how many members to look at, 1 to 1,000
  returns  {next cursor (0: the whole set was seen), id, token, id, token, ...}
  errors   EMQARG
  clock    none
  source   ours ]]
-- include whole

local count = whole(ARGV[3], 1, 1000)
if not count then return redis.error_reply('EMQARG count must be a whole number from 1 to 1000') end
-- ZSCAN shows a member at least once that is there from the first call to the last.
local part = redis.call('ZSCAN', KEYS[1], ARGV[2], 'COUNT', count)
local mark, found = ARGV[1] .. ':', {part[1]}
for i = 1, #part[2], 2 do
  local id = part[2][i]
  local row = redis.pcall('HMGET', KEYS[2] .. 'job:' .. id, 'worker', 'attempts')
  if row[1] and row[2] and row[1] == mark .. row[2] then
    found[#found + 1] = id
    found[#found + 1] = row[2]
  end
end
return found
