-- A run that counts already, which an earlier start of it did, stays.
local runs = KEYS[1]
local id, seconds, most = unpack(ARGV)

local limit = tonumber(most)
if limit > 0 and redis.call('SISMEMBER', runs, id) == 0
  and redis.call('SCARD', runs) >= limit then return 0 end
redis.call('SADD', runs, id)
redis.call('EXPIRE', runs, seconds)
return 1
