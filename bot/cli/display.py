"""What a command shows while it works: plain or JSON, and the time left.

`docs/fix.md` describes the events.
"""

import json
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from time import monotonic
from typing import Final

from bot.cli.stopwatch import Stopwatch
from bot.data.progress import STAGES, Progress, describe
from bot.data.run import now
from bot.safe_text import printable
from pipeline.data.progress import Count, Event


def is_worth_a_line(count: Count | None) -> bool:
    """Whether to log a sentence with this `count`: of the files read, about every tenth.

    Counts of tests always: they come seconds apart.
    """
    if count is None or count.what == "tests":
        return True
    done, total = count.done, count.total
    return done == total or done % max(1, total // 10) < max(1, total // 100)


class Display:
    """Shows what a command does: here one line for each sentence, for a log or a plain terminal."""

    def __init__(self) -> None:
        self._began = monotonic()
        self.earlier = 0.0
        """Seconds that earlier starts of the run took."""
        self._doing = ""
        self.stopwatch = Stopwatch()

    @property
    def seconds(self) -> float:
        return monotonic() - self._began

    def say(self, sentence: str) -> None:
        """Show a sentence that stays. It may quote the repository: untrusted."""
        sys.stderr.write(printable(sentence) + "\n")
        sys.stderr.flush()

    def show(self, progress: Progress, budget: float) -> None:
        """Show the progress of the run; `budget` is its limit in US dollars."""
        del budget
        if progress.doing not in ("", self._doing):
            self._doing = progress.doing
            if is_worth_a_line(progress.counted):
                self.say(progress.doing)

    def show_edit(self, diff: str) -> None:
        """Show the chosen edit where a person watches in color; its file is named in any case."""

    def end(self, code: int, facts: Mapping[str, object]) -> None:
        """Note that the command ends with the exit code `code` and the result `facts`."""

    def close(self) -> None:
        """Leave the terminal as it was, after an error too."""


CURRENT: Final[ContextVar[Display]] = ContextVar("CURRENT", default=Display())  # noqa: B039 - it only remembers its last line


def print_progress(sentence: str) -> None:
    CURRENT.get().say(sentence)


def print_event(event: Event, *, of: str) -> None:
    """Show what the run named `of` does now, if `event` says so."""
    text, count = describe(event)
    if text and is_worth_a_line(count):
        print_progress(f"{of}: {text}")


class Pace:
    """The time that counted work, such as "455 of 911 tests", still takes at its pace so far."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._first: Count | None = None
        self._latest: Count | None = None
        self._at = self._began

    def note(self, count: Count | None) -> None:
        """Remember how much is done; None if nothing is counted now."""
        first, latest = self._first, self._latest
        if (
            count is None
            or first is None
            or (first.total, first.what) != (count.total, count.what)
            or (latest is not None and count.done < latest.done)
        ):
            self._first, self._began = count, self._clock()
        self._latest, self._at = count, self._clock()

    @property
    def seconds_left(self) -> float | None:
        """None for the first two seconds, and while nothing is done."""
        first, latest, took = self._first, self._latest, self._at - self._began
        if first is None or latest is None or took < 2 or latest.done <= first.done:
            return None
        left = (latest.total - latest.done) * took / (latest.done - first.done)
        return max(0.0, left - (self._clock() - self._at))


def estimate_run(progress: Progress, earlier: float = 0.0) -> tuple[float, float] | None:
    """The least and the most seconds left, by earlier runs; `earlier` seconds went before.

    None if too few have ended, or once the run takes longer than most did.
    """
    if progress.expected is None or not progress.stages:
        return None
    took = earlier + (now() - min(progress.stages.values())).total_seconds()
    low, high = (seconds - took for seconds in progress.expected)
    return (max(0.0, low), high) if high > 0 else None


class EventLines(Display):
    def __init__(self) -> None:
        super().__init__()
        self._stage = ""
        self._pace = Pace()
        self._written: dict[str, object] = {}
        self._at = 0.0
        self._latest: dict[str, object] = {}
        self._end: dict[str, object] = {"exit_code": None, "outcome": "interrupted"}

    def say(self, sentence: str) -> None:
        self._flush()
        self._write("message", {"text": sentence})

    def show(self, progress: Progress, budget: float) -> None:
        """Write `stage` when one begins, and `progress` about once a second."""
        stage = max(progress.stages, key=STAGES.index, default=STAGES[0])
        if stage != self._stage:
            self._flush()
            self._stage = stage
            self._write("stage", {"stage": stage})
        count = progress.counted
        self._pace.note(count)
        run = estimate_run(progress, self.earlier)
        counts = ("files", "tests", "edits", "edits_begun", "suite_tests", "suite_run")
        self._latest = {
            "stage": stage,
            "doing": progress.doing,
            "done": count.done if count else None,
            "total": count.total if count else None,
            **{name: getattr(progress, name) for name in counts},
            "dollars": round(progress.dollars, 6),
            "budget": budget,
        }
        if self._latest != self._written and monotonic() - self._at >= 1:
            left = self._pace.seconds_left
            self._flush(
                {
                    "step_seconds_left": None if left is None else round(left, 1),
                    "run_seconds_left": None if run is None else [round(each) for each in run],
                }
            )

    def end(self, code: int, facts: Mapping[str, object]) -> None:
        self._end = {"exit_code": code, **facts}

    def close(self) -> None:
        self._flush()
        self._write("end", self._end)

    def _flush(self, estimates: Mapping[str, object] | None = None) -> None:
        """Write the latest progress, unless it has been written."""
        if self._latest == self._written:
            return
        self._written, self._at = self._latest, monotonic()
        none = {"step_seconds_left": None, "run_seconds_left": None}
        self._write("progress", {**self._latest, **(estimates or none)})

    def _write(self, event: str, facts: Mapping[str, object]) -> None:
        took = round(self.seconds, 3)
        line = {"event": event, "at": now().isoformat(), "seconds": took, **facts}
        sys.stderr.write(json.dumps(line) + "\n")
        sys.stderr.flush()
