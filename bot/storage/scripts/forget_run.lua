-- Removes from the active set what can never be finished: its record is gone or already final.
local active, claim, stopping = unpack(KEYS)
local id = ARGV[1]

redis.call('SREM', active, id)
redis.call('SREM', stopping, id)
if redis.call('GET', claim) == id then redis.call('DEL', claim) end
