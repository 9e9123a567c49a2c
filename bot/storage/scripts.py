"""What Redis does to the record of runs in one step each; `bot.storage.runs` says what for."""

from __future__ import annotations

from typing import Final, NamedTuple


class Nudge(NamedTuple):
    """A message to the workers, as the receiving side keeps it in Redis."""

    job_key: str
    queue: str
    job_id: str
    message: bytes
    at: int
    """When, in milliseconds since the epoch."""
    lifetime: int
    """For how many milliseconds it is kept."""

    @property
    def keys(self) -> tuple[str, str]:
        return self.job_key, self.queue

    @property
    def script_args(self) -> tuple[str, bytes, int, int]:
        return self.job_id, self.message, self.at, self.lifetime


SEND_NUDGE: Final = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('PSETEX', KEYS[1], ARGV[4], ARGV[2])
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
return 1
"""
LATEST: Final = """
local id = redis.call('GET', KEYS[1])
if not id then return false end
return {id, redis.call('GET', ARGV[1] .. id) or ''}
"""
# A claim whose run is no longer active is an orphan (a crash, a record edited by hand): it is
# taken over here, in the one place where it could do harm.
CREATE: Final = """
local before = redis.call('GET', KEYS[1])
if before then return {'repeated', before} end
if ARGV[9] ~= '' then
  for _, answered in ipairs(redis.call('HMGET', KEYS[7], ARGV[11], ARGV[12])) do
    if answered and tonumber(ARGV[9]) <= tonumber(answered) then
      return {'repeated', redis.call('GET', KEYS[5]) or ''}
    end
  end
end
local function mark()
  if ARGV[9] == '' then return end
  redis.call('HSET', KEYS[7], ARGV[8], ARGV[10])
  redis.call('EXPIRE', KEYS[7], ARGV[4])
end
local claim = redis.call('GET', KEYS[2])
if claim and redis.call('SISMEMBER', KEYS[4], claim) == 1 then
  if ARGV[7] == '1' then
    redis.call('SET', KEYS[1], claim, 'EX', ARGV[3])
    mark()
    local joined = ARGV[13] .. claim .. ':latest-join'
    if ARGV[9] ~= '' and tonumber(ARGV[9]) > tonumber(redis.call('GET', joined) or '0') then
      redis.call('SET', joined, ARGV[9], 'EX', ARGV[4])
    end
  end
  return {'running', claim}
end
mark()
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[3])
redis.call('SET', KEYS[2], ARGV[1])
redis.call('SET', KEYS[3], ARGV[2], 'EX', ARGV[4])
redis.call('SADD', KEYS[4], ARGV[1])
redis.call('SET', KEYS[5], ARGV[1], 'EX', ARGV[4])
redis.call('LPUSH', KEYS[8], ARGV[1])
redis.call('LTRIM', KEYS[8], 0, 49)
redis.call('EXPIRE', KEYS[8], ARGV[4])
if ARGV[5] ~= '' then redis.call('SET', KEYS[6], ARGV[5], 'EX', ARGV[6]) end
if KEYS[9] then
  redis.call('PSETEX', KEYS[9], ARGV[17], ARGV[15])
  redis.call('ZADD', KEYS[10], ARGV[16], ARGV[14])
end
return {'created', ARGV[1]}
"""
# A command is never lost to a hint that may turn out to be wrong.
REQUEST_STOP: Final = """
local at, before = tonumber(ARGV[4]), tonumber(redis.call('GET', KEYS[3]) or '')
if at and at > (before or 0) then redis.call('SET', KEYS[3], ARGV[4], 'EX', ARGV[5]) end
local id = redis.call('GET', KEYS[1])
if not id or redis.call('SISMEMBER', KEYS[2], id) == 0 then return false end
local stop = ARGV[1] .. id .. ':stop'
if ARGV[6] == '1' or redis.call('EXISTS', stop) == 0 then
  redis.call('SET', stop, ARGV[2], 'EX', ARGV[3])
end
redis.call('SADD', KEYS[4], id)
return id
"""
# Only the hint that was looked into: a command may have come meanwhile.
DROP_STOP: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
"""
# Only a record that nobody has changed since, or works on.
BRING_FORWARD: Final = """
if redis.call('EXISTS', KEYS[2]) == 1 or redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return 1
"""
# Removes from the active set what can never be finished: its record is gone or already final.
FORGET: Final = """
redis.call('SREM', KEYS[1], ARGV[1])
redis.call('SREM', KEYS[3], ARGV[1])
if redis.call('GET', KEYS[2]) == ARGV[1] then redis.call('DEL', KEYS[2]) end
"""
