-- A command is never lost to a hint that may turn out to be wrong.
-- Scripts name each key that they use, as Redis's kin demands: the run is looked up before.
local claim, active, stop_time, stopping, stop = unpack(KEYS)
local run_id, record, record_seconds, at, day, is_command = unpack(ARGV)

local id = redis.call('GET', claim) or ''
if id ~= run_id then return 'another run' end
local wanted, before = tonumber(at), tonumber(redis.call('GET', stop_time) or '')
if wanted and wanted > (before or 0) then redis.call('SET', stop_time, at, 'EX', day) end
if redis.call('SISMEMBER', active, id) == 0 then return false end
if is_command == '1' or redis.call('EXISTS', stop) == 0 then
  redis.call('SET', stop, record, 'EX', record_seconds)
end
redis.call('SADD', stopping, id)
return id
