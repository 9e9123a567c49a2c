"""Reports what happens, and how long it takes, to observers: metrics, traces and the debug log.

The parts that do something know no observer; without one, a report costs next to nothing.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What is reported."""

    RUN = "run"
    """One worker's attempt at a run. Facts: `run`, `mode`, `starts`; `status` at its end."""
    STAGE = "stage"
    """Facts: `stage`."""
    MODEL_CALL = "model call"
    """Facts: `model`, `call`; `input`, `cached`, `output` (tokens) and `dollars` of a reply."""
    EXECUTION = "execution"
    """Of one program in the sandbox. Facts: `what` (`script`, `tests` or `command`); at its end:
    `ending` and `cpu_seconds`."""
    GITHUB_CALL = "GitHub call"
    """Facts: `method`, `path`; `status` of an answer."""


@dataclass
class Event:
    """What happens; complete once it is over."""

    kind: Kind
    facts: dict[str, str | int | float] = field(default_factory=dict[str, str | int | float])
    seconds: float = 0.0
    error: str = ""
    """The class of the exception that ended it; empty: none."""


Observer = Callable[[Event], AbstractContextManager[None]]
"""Entered when an event begins, and left when it is over."""

_observers: dict[str, Observer] = {}


def add_observer(name: str, observer: Observer) -> None:
    """Report all events of this process to `observer`, in place of an earlier one of that name."""
    _observers[name] = observer


def remove_observer(name: str) -> None:
    """Report nothing to it any more."""
    _observers.pop(name, None)


@contextmanager
def observe(kind: Kind, **facts: str | int | float) -> Generator[Event]:
    """Report what the block does. It may add facts to the event."""
    event = Event(kind, facts)
    started = time.monotonic()
    with ExitStack() as stack:
        for observer in tuple(_observers.values()):
            stack.enter_context(observer(event))
        try:
            yield event
        except BaseException as error:
            event.error = type(error).__name__
            raise
        finally:
            event.seconds = time.monotonic() - started


class Level(StrEnum):
    """What goes up and down."""

    IDLE_CONTAINERS = "idle containers"
    BUSY_CONTAINERS = "busy containers"


class Levels:
    """The levels of this process, which threads may change."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._levels: Counter[Level] = Counter()

    def change(self, level: Level, by: int) -> None:
        with self._guard:
            self._levels[level] += by

    def read(self, level: Level) -> int:
        with self._guard:
            return self._levels[level]


LEVELS: Final = Levels()
