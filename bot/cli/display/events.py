"""The display of `--json`: an event a line, as a JSON object, on standard error.

`docs/guide.md` describes the events.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from time import monotonic
from typing import Final

from bot.cli.display.base import Timed
from bot.cli.display.time_left import Pace, estimate_run
from bot.storage.progress import STAGES, Progress
from bot.types import now

SECONDS: Final = 1.0
"""Between two events of progress in one stage."""
_COUNTS: Final = ("files", "tests", "edits", "edits_begun", "suite_tests", "suite_run")


class EventLines(Timed):
    """Writes each event when it happens."""

    def __init__(self) -> None:
        super().__init__()
        self._stage = ""
        self._pace = Pace()
        self._written: dict[str, object] = {}
        self._at = 0.0
        self._latest: dict[str, object] = {}
        self._end: dict[str, object] = {"exit_code": None, "outcome": "interrupted"}

    def say(self, sentence: str) -> None:
        """Write a `message`."""
        self._flush()
        self._write("message", {"text": sentence})

    def show(self, progress: Progress, budget: float) -> None:
        """Write a `stage` when one begins, and `progress` about once a second."""
        stage = max(progress.stages, key=STAGES.index, default=STAGES[0])
        if stage != self._stage:
            self._flush()
            self._stage = stage
            self._write("stage", {"stage": stage})
        count = self._pace.read(progress.doing)
        run = estimate_run(progress)
        self._latest = {
            "stage": stage,
            "doing": progress.doing,
            "done": count.done if count else None,
            "total": count.total if count else None,
            **{name: getattr(progress, name) for name in _COUNTS},
            "dollars": round(progress.dollars, 6),
            "budget": budget,
        }
        if self._latest != self._written and monotonic() - self._at >= SECONDS:
            left = self._pace.seconds_left
            self._flush(
                {
                    "step_seconds_left": None if left is None else round(left, 1),
                    "run_seconds_left": None if run is None else [round(each) for each in run],
                }
            )

    def end(self, code: int, facts: Mapping[str, object]) -> None:
        """Keep this for the `end`, which is the last event."""
        self._end = {"exit_code": code, **facts}

    def close(self) -> None:
        """Write the `end`."""
        self._flush()
        self._write("end", self._end)

    def _flush(self, estimates: Mapping[str, object] | None = None) -> None:
        """Write the latest progress, unless it is written."""
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
