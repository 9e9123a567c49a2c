-- Where `releases` is 1, the lease ends with it.
local lease, run = unpack(KEYS)
local token, record, seconds, releases = unpack(ARGV)

if redis.call('GET', lease) ~= token then return 0 end
redis.call('SET', run, record, 'EX', seconds)
if releases == '1' then redis.call('DEL', lease) end
return 1
