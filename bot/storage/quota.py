"""Counts runs by person, repository and installation."""

from __future__ import annotations

from typing import Final

# All or nothing: a run that is over one limit counts against none. One that counts already, which
# an earlier start of it did, stays.
COUNT_SCRIPT: Final = """
for i, key in ipairs(KEYS) do
  local limit = tonumber(ARGV[2 + i])
  if limit > 0 and redis.call('SISMEMBER', key, ARGV[1]) == 0
    and redis.call('SCARD', key) >= limit then return i end
end
for _, key in ipairs(KEYS) do
  redis.call('SADD', key, ARGV[1])
  redis.call('EXPIRE', key, ARGV[2])
end
return 0
"""
