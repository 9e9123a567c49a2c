local prefix = ARGV[1]

for _, key in ipairs(KEYS) do
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.sub(field, 1, #prefix) == prefix then redis.call('HDEL', key, field) end
  end
end
