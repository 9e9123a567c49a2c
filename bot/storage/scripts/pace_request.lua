local pace = KEYS[1]
local now, spacing = tonumber(ARGV[1]), tonumber(ARGV[2])

local paced = math.max(now, tonumber(redis.call('GET', pace)) or 0) + spacing
redis.call('SET', pace, string.format('%.0f', paced), 'PX', string.format('%.0f', paced - now))
return paced
