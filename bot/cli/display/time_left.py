"""How long the work will still take, as far as that can be known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Final, cast

from bot.cli.display.base import Count, parse_count
from bot.storage.progress import Progress, range_of_durations
from bot.types import now

FILE: Final = "fix-durations.json"
MOST_RUNS: Final = 20
MOST_BYTES: Final = 10_000
LEAST_SECONDS: Final = 2.0
"""Of counted work, before its pace says anything."""


class Pace:
    """The time that counted work, such as "455 of 911 tests", still takes at its pace so far."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._first: Count | None = None
        self._latest: Count | None = None
        self._at = self._began

    def read(self, doing: str) -> Count | None:
        """The count in the sentence, which is remembered."""
        count = parse_count(doing)
        first = self._first
        if count is None or first is None or self._is_other_work(first, count):
            self._first, self._began = count, self._clock()
        self._latest, self._at = count, self._clock()
        return count

    @property
    def seconds_left(self) -> float | None:
        """None before the pace is known."""
        first, latest, took = self._first, self._latest, self._at - self._began
        if first is None or latest is None or took < LEAST_SECONDS or latest.done <= first.done:
            return None
        left = (latest.total - latest.done) * took / (latest.done - first.done)
        return max(0.0, left - (self._clock() - self._at))

    def _is_other_work(self, first: Count, count: Count) -> bool:
        latest = self._latest
        return (first.total, first.what) != (count.total, count.what) or (
            latest is not None and count.done < latest.done
        )


def estimate_run(progress: Progress) -> tuple[float, float] | None:
    """The least and the most seconds left, by earlier runs; None where too few have ended.

    Also None once the run takes longer than most did.
    """
    if progress.expected is None or not progress.stages:
        return None
    took = (now() - min(progress.stages.values())).total_seconds()
    low, high = (seconds - took for seconds in progress.expected)
    return (max(0.0, low), high) if high > 0 else None


def load_expected(data_dir: Path, repository: str) -> tuple[float, float] | None:
    """How many seconds the middle half of the latest runs of `capuchin fix` here took."""
    return range_of_durations(_load(data_dir).get(repository, []))


def save_duration(data_dir: Path, repository: str, seconds: float) -> None:
    """Remember how long a run took. Failures are ignored: the next estimate is poorer."""
    known = _load(data_dir)
    known[repository] = [*known.get(repository, []), round(seconds, 1)][-MOST_RUNS:]
    while len(text := json.dumps(known)) > MOST_BYTES:
        del known[next(iter(known))]
    try:
        if not data_dir.exists():
            data_dir.mkdir(parents=True)
            (data_dir / ".gitignore").write_text("*\n", encoding="ascii")
        (data_dir / FILE).write_text(text, encoding="utf-8")
    except OSError:
        return


def _load(data_dir: Path) -> dict[str, list[float]]:
    try:
        found: object = json.loads((data_dir / FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    listed = cast(dict[str, object], found).items()
    return {name: _numbers(values) for name, values in listed}


def _numbers(values: object) -> list[float]:
    listed = cast(list[object], values) if isinstance(values, list) else []
    return [float(each) for each in listed if isinstance(each, int | float)]
