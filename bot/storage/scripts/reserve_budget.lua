-- Each key is a hash: `spent`, and a field for each grant: `amount|until`. A settled grant keeps its
-- field with the amount 0 until then, so that settling it a second time counts nothing.
-- After the first five arguments, a ceiling for each key.
local grant, least, most, seconds, kept_seconds = unpack(ARGV)

local now = tonumber(redis.call('TIME')[1])
local granted = tonumber(most)
least = tonumber(least)
for i, key in ipairs(KEYS) do
  local ceiling, spent, held = tonumber(ARGV[5 + i]), 0, 0
  local all = redis.call('HGETALL', key)
  for n = 1, #all, 2 do
    if all[n] == 'spent' then
      spent = tonumber(all[n + 1])
    else
      local amount, expiry = string.match(all[n + 1], '^(.-)|(.*)$')
      if tonumber(expiry) < now then redis.call('HDEL', key, all[n])
      elseif all[n] ~= grant then held = held + tonumber(amount) end
    end
  end
  local left = ceiling - spent
  if left <= 0 or left < least then return {i, tostring(spent), 0} end
  if left - held <= 0 or left - held < least then return {i, tostring(spent), 1} end
  granted = math.min(granted, left - held)
end
for _, key in ipairs(KEYS) do
  redis.call('HSET', key, grant, string.format('%.9f|%d', granted, now + tonumber(seconds)))
  redis.call('EXPIRE', key, kept_seconds)
end
return {0, string.format('%.9f', granted), 0}
