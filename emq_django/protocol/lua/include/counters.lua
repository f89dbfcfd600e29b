-- include whole
-- include decimal
-- A counter field by value: unlike HINCRBY the write can't fail on a damaged one, which starts anew.
local function read_counter(key, field)
  return whole(redis.call('HGET', key, field), 0, 9007199254740991) or 0
end
local function write_counter(key, field, number)
  redis.call('HSET', key, field, decimal(number))
end
