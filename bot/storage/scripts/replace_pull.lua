-- Only a record that nobody has changed since it was read.
local pulls = KEYS[1]
local number, before, after = unpack(ARGV)

if redis.call('HGET', pulls, number) ~= before then return 0 end
redis.call('HSET', pulls, number, after)
return 1
