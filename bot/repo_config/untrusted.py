"""Reads a stranger's settings file away from the event loop, with limits of time and memory.

The YAML reader takes a second for 64 KiB: all runs of a worker would stand still meanwhile.
"""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict

from bot.repo_config.model import ConfigProblem, RepoConfig, parse_or_list_problems
from pipeline.codebase.isolated import IsolatedFailure, call_isolated

SMALL: Final = 2_000
"""Characters that are read in some 30 ms, on the spot; a process takes longer to start."""
SECONDS: Final = 30.0
MEMORY_BYTES: Final = 1024 * 1024 * 1024
_TOO_COSTLY: Final = "The file takes too long to read: shorten it."


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    config: RepoConfig | None = None
    problems: list[ConfigProblem] = []


async def read_untrusted(text: str) -> RepoConfig | list[ConfigProblem]:
    """As `parse_or_list_problems`; a file that costs too much to read has that one problem."""
    if len(text) <= SMALL:
        return parse_or_list_problems(text)
    data = text.encode("utf-8", "surrogatepass")
    try:
        output = await call_isolated(
            __name__, "answer_in_process", data, seconds=SECONDS, memory=MEMORY_BYTES
        )
    except IsolatedFailure:
        return [ConfigProblem(line=1, column=1, message=_TOO_COSTLY)]
    answer = _Answer.model_validate_json(output)
    return answer.problems if answer.config is None else answer.config


def answer_in_process(data: bytes) -> bytes:
    """`parse_or_list_problems`, from bytes to JSON."""
    found = parse_or_list_problems(data.decode("utf-8", "surrogatepass"))
    answer = _Answer(config=found) if isinstance(found, RepoConfig) else _Answer(problems=found)
    return answer.model_dump_json(exclude_unset=True).encode()
