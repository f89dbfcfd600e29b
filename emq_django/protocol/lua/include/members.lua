-- A slice of a set behind a cursor, as a flat list of id, score, id, score. By id where all scores
-- are 0; else by score and, where scores are equal, by id.
local function members_by_id(set, cursor, reverse, count)
  local from, to = cursor == '' and '-' or '(' .. cursor, '+'
  if reverse then from, to = cursor == '' and '+' or '(' .. cursor, '-' end
  local ids = reverse
    and redis.call('ZRANGE', set, from, to, 'BYLEX', 'REV', 'LIMIT', 0, count)
    or redis.call('ZRANGE', set, from, to, 'BYLEX', 'LIMIT', 0, count)
  local flat = {}
  for _, id in ipairs(ids) do
    flat[#flat + 1] = id
    flat[#flat + 1] = '0'
  end
  return flat
end

-- By bytes: Lua's own comparison follows the server's locale.
local function is_behind(id, other)
  for i = 1, math.min(#id, #other) do
    local a, b = string.byte(id, i), string.byte(other, i)
    if a ~= b then return a > b end
  end
  return #id > #other
end

-- How many members stand before the place (score, id), with or without a member of that very place.
-- The members of one score are in id order, so the place among them is found by halving.
local function count_before(set, score, id, inclusive)
  local low = redis.call('ZCOUNT', set, '-inf', '(' .. score)
  local high = redis.call('ZCOUNT', set, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local other = redis.call('ZRANGE', set, middle, middle)[1]
    if is_behind(other, id) or (other == id and not inclusive) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

local function members_by_score(set, cursor, score, reverse, count)
  local first = 0
  if score ~= '' then
    if cursor ~= '' then
      first = count_before(set, score, cursor, not reverse)
    else
      first = redis.call('ZCOUNT', set, '-inf', reverse and score or '(' .. score)
    end
    if reverse then first = redis.call('ZCARD', set) - first end
  elseif cursor ~= '' then
    local rank = redis.call(reverse and 'ZREVRANK' or 'ZRANK', set, cursor)
    first = rank and rank + 1 or 0
  end
  return redis.call(reverse and 'ZREVRANGE' or 'ZRANGE', set, first, first + count - 1, 'WITHSCORES')
end
