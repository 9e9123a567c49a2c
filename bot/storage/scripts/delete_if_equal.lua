-- A hint that was looked into, or a lease that is ours: another may have come meanwhile.
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
