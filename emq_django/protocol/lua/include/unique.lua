-- A unique key names the one live job that holds it; all keys of a queue stand in one hash. The
-- script that ends the job frees the key. Another speaker's script does not: a key whose job is dead,
-- has no row or has come back without the key is free as well. free_unique can't fail on a hash of
-- another type, since it runs between writes.
local function read_unique(base)
  redis.call('HLEN', base .. 'dj:unique')
end

local function free_unique(base, id, key)
  if key and redis.pcall('HGET', base .. 'dj:unique', key) == id then
    redis.call('HDEL', base .. 'dj:unique', key)
  end
end

local function unique_holder(base, key)
  local holder = redis.call('HGET', base .. 'dj:unique', key)
  if not holder then return nil end
  local row = redis.pcall('HMGET', base .. 'job:' .. holder, 'unique', 'state')
  return row[1] == key and row[2] ~= 'dead' and holder or nil
end

local function write_unique(base, id, key)
  redis.call('HSET', base .. 'dj:unique', key, id)
end
