-- Begins a run of an issue, unless the issue has one or the delivery or label was answered before.
-- A claim whose run is no longer active is an orphan (a crash, a record edited by hand): it is taken
-- over here, in the one place where it could do harm.
local delivery, claim, run, active, latest, version_key, label_events, history, latest_join = unpack(KEYS)
local id, record, delivery_seconds, record_seconds, version, version_seconds, joins,
  event_field, event_at, event_until, covering, covering_too = unpack(ARGV)

local before = redis.call('GET', delivery)
if before then return {'repeated', before} end
if event_at ~= '' then
  for _, answered in ipairs(redis.call('HMGET', label_events, covering, covering_too)) do
    if answered and tonumber(event_at) <= tonumber(answered) then
      return {'repeated', redis.call('GET', latest) or ''}
    end
  end
end
local function mark()
  if event_at == '' then return end
  redis.call('HSET', label_events, event_field, event_until)
  redis.call('EXPIRE', label_events, record_seconds)
end
local current = redis.call('GET', claim)
if current and redis.call('SISMEMBER', active, current) == 1 then
  if joins == '1' then
    redis.call('SET', delivery, current, 'EX', delivery_seconds)
    mark()
    if event_at ~= '' and tonumber(event_at) > tonumber(redis.call('GET', latest_join) or '0') then
      redis.call('SET', latest_join, event_at, 'EX', record_seconds)
    end
  end
  return {'running', current}
end
mark()
redis.call('SET', delivery, id, 'EX', delivery_seconds)
redis.call('SET', claim, id)
redis.call('SET', run, record, 'EX', record_seconds)
redis.call('SADD', active, id)
redis.call('SET', latest, id, 'EX', record_seconds)
redis.call('DEL', latest_join)
redis.call('LPUSH', history, id)
redis.call('LTRIM', history, 0, 49)
redis.call('EXPIRE', history, record_seconds)
if version ~= '' then redis.call('SET', version_key, version, 'EX', version_seconds) end
return {'created', id}
