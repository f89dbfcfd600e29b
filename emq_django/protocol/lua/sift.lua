--[[ sift: look at a bounded slice of a set for the jobs that a filter lets through
  state    unchanged
  KEYS[1]  set       pending, dead, a lane (scores 0) or active, schedule, dj:finished (scores in ms)
  KEYS[2]  base      emq:{q}:, the root of the rows
  ARGV[1]  order     lex (by id) | score
  ARGV[2]  limit     members looked at, 1 to 1,000
  ARGV[3]  cursor    the last id seen, or empty: the slice starts behind it
  ARGV[4]  score     where the cursor stood, or empty; without a cursor the score to start at
  ARGV[5]  reverse   1 reads from the other end
  ARGV[6]  bytes     payloads and errors above this size are neither searched nor returned
  ARGV[7]  suffix    of the rows' keys: empty, or :result
  ARGV[8]  facts     1 returns rows as page does; 0 returns {id, score} for each
  ARGV[9]  attempts  at least
  ARGV[10] lane      branded id, or empty for any
  ARGV[11] within    ms before the server's now in which the job must have died; 0: at any time
  ARGV[12] from      Unix ms at or after which it must have died; 0: at any time
  ARGV[13] until     Unix ms at or before which it must have died; 0: at any time
  ARGV[14] task      bytes that the payload must hold, or empty
  ARGV[15+] texts    bytes of which the payload or the error must hold one; none: any
  returns  {now ms, looked at, last id, its score, set goes on 0|1, jobs too large to search, rows}
  errors   EMQARG
  clock    server TIME
  source   ours ]]
-- include whole
-- include decimal
-- include members
-- include facts
-- include clock

local limit, most = whole(ARGV[2], 1, 1000), whole(ARGV[6], 0, 1073741824)
local attempts = whole(ARGV[9], 0, 9007199254740991)
local within, from = whole(ARGV[11], 0, 4503599627370496), whole(ARGV[12], 0, 4503599627370496)
local till = whole(ARGV[13], 0, 4503599627370496)
local bad = not limit or not most or not attempts or not within or not from or not till
if bad or (ARGV[4] ~= '' and not tonumber(ARGV[4])) then
  return redis.error_reply('EMQARG limit, score, bytes, attempts and times must be numbers in range')
end
local reverse = ARGV[5] == '1'
local members
if ARGV[1] == 'score' then
  members = members_by_score(KEYS[1], ARGV[3], ARGV[4], reverse, limit + 1)
else
  members = members_by_id(KEYS[1], ARGV[3], reverse, limit + 1)
end

local now = server_ms()
local by_death = within > 0 or from > 0 or till > 0
if within > 0 then from = math.max(from, now - within) end
local function died_in_time(died, claim)
  local at, token = string.match(died or '', '^(%d+):(%d+)$')
  at = token == (claim or '0') and whole(at, 0, 4503599627370496)
  return at and at >= from and (till == 0 or at <= till)
end

local too_large = 0
local function holds(row)
  if ARGV[14] == '' and not ARGV[15] then return true end
  local size, payload = blob(row, 'payload', most)
  local error_size, error_text = blob(row, 'last_error', ARGV[15] and most or 0)
  if size > most or (ARGV[15] and error_size > most) then too_large = too_large + 1 end
  payload, error_text = payload or '', error_text or ''
  if ARGV[14] ~= '' and not string.find(payload, ARGV[14], 1, true) then return false end
  if not ARGV[15] then return true end
  for i = 15, #ARGV do
    if string.find(payload, ARGV[i], 1, true) or string.find(error_text, ARGV[i], 1, true) then
      return true
    end
  end
  return false
end

local function is_wanted(row)
  if attempts > 0 or by_death or ARGV[10] ~= '' then
    local f = redis.pcall('HMGET', row, 'attempts', 'group', 'died')
    if f.err or (whole(f[1], 0, 9007199254740991) or 0) < attempts then return false end
    if ARGV[10] ~= '' and f[2] ~= ARGV[10] then return false end
    if by_death and not died_in_time(f[3], f[1]) then return false end
  end
  if ARGV[14] == '' and not ARGV[15] then return true end
  return type(redis.pcall('HLEN', row)) == 'number' and holds(row)
end

local rows, looked = {}, math.min(#members / 2, limit)
for i = 1, looked * 2, 2 do
  local id, score = members[i], members[i + 1]
  local row = KEYS[2] .. 'job:' .. id .. ARGV[7]
  if is_wanted(row) then
    rows[#rows + 1] = ARGV[8] == '1' and facts_of(row, id, score, most) or {id, score}
  end
end
return {
  decimal(now), looked, members[looked * 2 - 1] or '', members[looked * 2] or '',
  #members / 2 > limit and 1 or 0, too_large, rows,
}
