--[[ page: a slice of a set with the facts of its rows
  state    unchanged
  KEYS[1]  set       pending, dead, a lane (scores 0) or active, schedule, dj:finished (scores in ms)
  KEYS[2]  base      emq:{q}:, the root of the rows
  ARGV[1]  order     lex (by id) | score
  ARGV[2]  limit     members at most, 1 to 1,000; one more is read to tell whether the set goes on
  ARGV[3]  cursor    the last id seen, or empty: the slice starts behind it
  ARGV[4]  score     where the cursor stood, or empty; without a cursor the score to start at
  ARGV[5]  reverse   1 reads from the other end
  ARGV[6]  bytes     payloads and errors above this size are reported by size only
  ARGV[7]  suffix    of the rows' keys: empty, or :result
  returns  {now ms, members in the set, rows}; a row is {id, score, exists 0|1, state, attempts, lane,
            failures, stalled, worker, payload size, payload, error size, error, taken, task,
            died}
  errors   EMQARG
  clock    server TIME
  source   ours ]]
-- include whole
-- include decimal
-- include members
-- include facts
-- include clock

local limit, most = whole(ARGV[2], 1, 1000), whole(ARGV[6], 0, 1073741824)
if not limit or not most or (ARGV[4] ~= '' and not tonumber(ARGV[4])) then
  return redis.error_reply('EMQARG limit, score and bytes must be numbers in range')
end
local reverse = ARGV[5] == '1'
local members
if ARGV[1] == 'score' then
  members = members_by_score(KEYS[1], ARGV[3], ARGV[4], reverse, limit + 1)
else
  members = members_by_id(KEYS[1], ARGV[3], reverse, limit + 1)
end
local rows = {}
for i = 1, #members, 2 do
  local row = KEYS[2] .. 'job:' .. members[i] .. ARGV[7]
  rows[#rows + 1] = facts_of(row, members[i], members[i + 1], most)
end
return {decimal(server_ms()), redis.call('ZCARD', KEYS[1]), rows}
