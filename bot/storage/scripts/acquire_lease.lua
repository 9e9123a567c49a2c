local active, lease, fences, run = unpack(KEYS)
local id, worker, milliseconds, record_seconds = unpack(ARGV)

if redis.call('SISMEMBER', active, id) == 0 or redis.call('EXISTS', lease) == 1 then return false end
local record = redis.call('GET', run)
if not record then return false end
local fence = redis.call('INCR', fences)
redis.call('EXPIRE', fences, record_seconds)
redis.call('SET', lease, worker .. '#' .. fence, 'PX', milliseconds)
return {fence, record}
