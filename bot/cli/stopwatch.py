"""Measures what the wall time of a run goes into."""

import time
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from pydantic import Field

from pipeline.environment.record import EnvironmentRecord
from pipeline.store import Store
from sandbox.frozen import Frozen
from sandbox.observation import Event, Kind, add_observer, remove_observer

NAME: Final = "stopwatch"
SECONDS_KEY: Final = "seconds"


class BusySeconds(Frozen):
    """Seconds of wall time, over all starts of a run, in which something of a kind was under way:
    what runs side by side counts once, and the wait for a place in the sandbox counts. Kinds
    overlap."""

    whole: float = 0.0
    models: float = 0.0
    tests: float = 0.0
    """The repository's own tests, with those that edits bring."""
    scripts: float = 0.0
    """With the controls of them."""
    commands: float = 0.0
    """What models ran to look around, and single files of tests."""
    environment: float = 0.0
    """Building and trying it; 0 where it was found built."""
    processor: dict[str, float] = Field(default_factory=dict[str, float])
    """Seconds of processor time, by stage of the run and what ran there: `choice tests`."""


class Stopwatch:
    """Use as a context manager around a run, one at a time in a process."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._active: defaultdict[str, int] = defaultdict(int)
        self._since: dict[str, float] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._processor: defaultdict[str, float] = defaultdict(float)
        self._stage = ""

    def __enter__(self) -> "Stopwatch":
        add_observer(NAME, self._observe)
        return self

    def __exit__(self, *_: object) -> None:
        remove_observer(NAME)

    async def read(self, store: Store, environment: EnvironmentRecord | None) -> BusySeconds:
        """What this start and those before it took. A start that ran nothing changes nothing."""
        before = await store.load(SECONDS_KEY, BusySeconds) or BusySeconds()
        if not self._seconds.keys() & {"model call", "tests", "script", "command"}:
            return before
        built = sum(attempt.seconds for attempt in environment.tried) if environment else 0.0
        used = {*before.processor, *self._processor}
        found = BusySeconds(
            whole=round(before.whole + time.monotonic() - self._began, 1),
            models=round(before.models + self._seconds["model call"], 1),
            tests=round(before.tests + self._seconds["tests"], 1),
            scripts=round(before.scripts + self._seconds["script"], 1),
            commands=round(before.commands + self._seconds["command"], 1),
            environment=round(built, 1),
            processor={
                name: round(before.processor.get(name, 0.0) + self._processor[name], 3)
                for name in sorted(used)
            },
        )
        await store.save(SECONDS_KEY, found)
        return found

    @contextmanager
    def _observe(self, event: Event) -> Generator[None]:
        what = str(event.facts.get("what", event.kind.value))
        if event.kind is Kind.STAGE:
            self._stage = str(event.facts["stage"])
        if not self._active[what]:
            self._since[what] = time.monotonic()
        self._active[what] += 1
        try:
            yield
        finally:
            if cpu := float(event.facts.get("cpu_seconds", 0.0)):
                self._processor[f"{self._stage} {what}".strip()] += cpu
            self._active[what] -= 1
            if not self._active[what]:
                self._seconds[what] += time.monotonic() - self._since[what]
