local lease = KEYS[1]
local token, milliseconds = unpack(ARGV)

if redis.call('GET', lease) ~= token then return 0 end
redis.call('PEXPIRE', lease, milliseconds)
return 1
