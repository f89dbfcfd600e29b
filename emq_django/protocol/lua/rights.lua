--[[ rights: try every command that scripts of this package use, and tell which are refused
  state    unchanged; a scratch key lives as long as this, or a second where it may not be deleted
  KEYS[1]  scratch   emq:{q}:dj:rights
  returns  the names of the commands that this user may not run, or not on keys of this queue
  errors   none
  clock    none
  source   ours ]]
local key = KEYS[1]
-- A string: what would write another type fails on it, after the rights were looked at.
local made = redis.pcall('SET', key, '1', 'PX', '1000')
local PROBES = {
  {'DEL', key .. ':'}, {'EXISTS', key}, {'GET', key}, {'HDEL', key, 'f'}, {'HEXISTS', key, 'f'},
  {'HGET', key, 'f'}, {'HINCRBY', key, 'f', '1'}, {'HKEYS', key}, {'HLEN', key}, {'HMGET', key, 'f'},
  {'HRANDFIELD', key, '1'}, {'HSCAN', key, '0'}, {'HSET', key, 'f', '1'}, {'HSTRLEN', key, 'f'},
  {'LINDEX', key, '0'}, {'LLEN', key}, {'LMOVE', key, key, 'LEFT', 'RIGHT'}, {'LPOS', key, 'x'},
  {'LPUSH', key, 'x'}, {'LRANGE', key, '0', '0'}, {'LREM', key, '0', 'x'}, {'LTRIM', key, '0', '0'},
  {'PEXPIRE', key, '1000'}, {'PTTL', key}, {'PUBLISH', key, ''}, {'RENAME', key .. ':', key .. ':'},
  {'RPUSH', key, 'x'}, {'SADD', key, 'x'}, {'SCARD', key}, {'SISMEMBER', key, 'x'},
  {'SRANDMEMBER', key, '1'}, {'SREM', key, 'x'}, {'SSCAN', key, '0'}, {'TIME'}, {'TYPE', key},
  {'UNLINK', key .. ':'}, {'ZADD', key, '0', 'x'}, {'ZCARD', key}, {'ZCOUNT', key, '0', '0'},
  {'ZLEXCOUNT', key, '-', '+'}, {'ZPOPMIN', key}, {'ZRANGE', key, '0', '0'},
  {'ZRANGEBYSCORE', key, '0', '0'}, {'ZRANK', key, 'x'}, {'ZREM', key, 'x'},
  {'ZREMRANGEBYRANK', key, '0', '0'}, {'ZREVRANGE', key, '0', '0'}, {'ZREVRANK', key, 'x'},
  {'ZSCAN', key, '0'}, {'ZSCORE', key, 'x'},
}
local MAKES = {HINCRBY = true, HSET = true, LPUSH = true, RPUSH = true, SADD = true, ZADD = true}

local function is_refused(answer)
  local text = type(answer) == 'table' and answer.err or ''
  return string.find(text, 'NOPERM ', 1, true) or string.find(text, 'ACL failure', 1, true)
    or string.find(text, "The user executing the script can't", 1, true)
end

local refused = {}
if is_refused(made) then refused[1] = 'SET' end
for _, probe in ipairs(PROBES) do
  -- Without the string these would leave a key behind.
  if not (MAKES[probe[1]] and is_refused(made)) and is_refused(redis.pcall(unpack(probe))) then
    refused[#refused + 1] = probe[1]
  end
end
redis.pcall('DEL', key)
return refused
