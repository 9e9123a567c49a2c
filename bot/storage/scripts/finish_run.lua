-- All or none: the record as it ended, the issue free for another, what is counted of it.
local lease, run, active, claim, ended, totals, durations, history, stopping = unpack(KEYS)
local token, record, record_seconds, id, status, ended_at, took, dollars, durations_kept,
  entry, history_seconds, history_kept, entry_at = unpack(ARGV)

if redis.call('GET', lease) ~= token then return 0 end
redis.call('SET', run, record, 'EX', record_seconds)
redis.call('DEL', lease)
redis.call('SREM', active, id)
local time = tonumber(ended_at)
if entry ~= '' then
  redis.call('ZADD', history, entry_at, entry)
  redis.call('ZREMRANGEBYSCORE', history, '-inf', time - history_seconds)
  redis.call('ZREMRANGEBYRANK', history, 0, -1 - history_kept)
  redis.call('EXPIRE', history, history_seconds)
end
redis.call('ZADD', ended, time, id)
redis.call('ZREMRANGEBYSCORE', ended, '-inf', time - record_seconds)
redis.call('HINCRBY', totals, 'ended ' .. status, 1)
redis.call('HINCRBYFLOAT', totals, 'dollars', dollars)
if took ~= '' then
  redis.call('HINCRBYFLOAT', totals, 'seconds', took)
  redis.call('LPUSH', durations, took)
  redis.call('LTRIM', durations, 0, durations_kept - 1)
end
redis.call('SREM', stopping, id)
if redis.call('GET', claim) == id then redis.call('DEL', claim) end
return 1
