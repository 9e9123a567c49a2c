-- Saving what is already there does not count as progress: a run that always crashes at the same
-- place does it too. Nor is having paid: it may pay again and again for an answer that it never gets.
local document, checkpoints, documents = unpack(KEYS)
local packed, seconds, record_seconds, counts, name = unpack(ARGV)

local same = redis.call('GET', document) == packed
redis.call('SET', document, packed, 'EX', seconds)
if not same and counts == '1' then
  redis.call('INCR', checkpoints)
  redis.call('EXPIRE', checkpoints, record_seconds)
end
if name ~= '' then
  redis.call('SADD', documents, name)
  redis.call('EXPIRE', documents, record_seconds)
end
