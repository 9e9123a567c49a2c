-- Only a record that nobody has changed since, or works on.
local run, lease = unpack(KEYS)
local before, after, seconds = unpack(ARGV)

if redis.call('EXISTS', lease) == 1 or redis.call('GET', run) ~= before then return 0 end
redis.call('SET', run, after, 'EX', seconds)
return 1
