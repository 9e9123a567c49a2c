local name, dollars, kept_seconds = unpack(ARGV)

for _, key in ipairs(KEYS) do
  local grant = redis.call('HGET', key, name)
  local amount, expiry = string.match(grant or '', '^(.-)|(.*)$')
  if not grant or tonumber(amount) ~= 0 then
    redis.call('HINCRBYFLOAT', key, 'spent', dollars)
    redis.call('EXPIRE', key, kept_seconds)
    if grant then redis.call('HSET', key, name, '0|' .. expiry) end
  end
end
