"""The display of a command, and the plain one: a line for each sentence."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from time import monotonic
from typing import Final, NamedTuple, Protocol

from bot.cli.terminal import printable
from bot.storage.progress import Progress

_COUNT: Final = re.compile(
    r"(?<![\d,])(?P<done>\d[\d,]*) of (?P<total>\d[\d,]*) (?P<what>file|test)s?\b"
)


class Count(NamedTuple):
    """How much of some work is done."""

    done: int
    total: int
    what: str
    """`files` or `tests`."""

    @property
    def at_tenth(self) -> bool:
        """Whether a log should have it: the start, the end, and about every 10% of files between.

        Counts of tests always: they come seconds apart.
        """
        done, total = self.done, self.total
        near = done == total or done % max(1, total // 10) < max(1, total // 100)
        return near or self.what == "tests"


def parse_count(sentence: str) -> Count | None:
    """The count in a sentence such as "… 455 of 911 tests begun."; None for any other sentence."""
    found = _COUNT.search(sentence)
    if found is None:
        return None
    done, total = (int(found[name].replace(",", "")) for name in ("done", "total"))
    return Count(done, total, f"{found['what']}s")


class Display(Protocol):
    """Shows what a command does."""

    @property
    def seconds(self) -> float:
        """Since the command began."""
        ...

    def say(self, sentence: str) -> None:
        """Show a sentence that stays. It may quote the repository: untrusted."""
        ...

    def show(self, progress: Progress, budget: float) -> None:
        """Show how far the run has come; `budget` is its limit in US dollars."""
        ...

    def end(self, code: int, facts: Mapping[str, object]) -> None:
        """The command ends with the exit code `code`; `facts` say what came of it."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was, after an error too."""
        ...


class Timed:
    """What every display knows of the time."""

    def __init__(self) -> None:
        self._began = monotonic()

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return monotonic() - self._began


class PlainLines(Timed):
    """A line for each sentence, for a log or a terminal that cannot move its cursor."""

    def __init__(self) -> None:
        super().__init__()
        self._doing = ""

    def say(self, sentence: str) -> None:
        """Print the sentence; of those that count, about every tenth."""
        count = parse_count(sentence)
        if count is not None and not count.at_tenth:
            return
        sys.stderr.write(printable(sentence) + "\n")
        sys.stderr.flush()

    def show(self, progress: Progress, budget: float) -> None:
        """Print what the run does when that changes."""
        del budget
        if progress.doing not in ("", self._doing):
            self._doing = progress.doing
            self.say(progress.doing)

    def end(self, code: int, facts: Mapping[str, object]) -> None:
        """Nothing: the sentences have said it."""

    def close(self) -> None:
        """Nothing is open."""


CURRENT: Final[ContextVar[Display]] = ContextVar("CURRENT", default=PlainLines())  # noqa: B039 - it only remembers its last line


def print_progress(sentence: str) -> None:
    """Show a sentence on the command's display; standard output is for results."""
    CURRENT.get().say(sentence)
