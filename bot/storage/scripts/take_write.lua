-- An hour or a minute begins with its first write. The answer is 0, or the milliseconds until one of
-- them ends in which no write is left. For each key: how many, and its milliseconds.
local wait = 0
for i, key in ipairs(KEYS) do
  local most = tonumber(ARGV[2 * i - 1])
  if tonumber(redis.call('GET', key) or '0') >= most then
    wait = math.max(wait, redis.call('PTTL', key), 1)
  end
end
if wait > 0 then return wait end
for i, key in ipairs(KEYS) do
  if redis.call('INCR', key) == 1 then redis.call('PEXPIRE', key, ARGV[2 * i]) end
end
return 0
