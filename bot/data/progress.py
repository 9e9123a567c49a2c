"""How far a run has come: stages and counts, for people."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, get_args

from pydantic import Field

from bot.data.run import Mode, now
from pipeline.data.progress import (
    CommentsHeard,
    Count,
    Doing,
    EnvironmentFound,
    Event,
    FilesRead,
    Spent,
    Stage,
    StageBegan,
    SuiteRan,
    Written,
)
from sandbox.frozen import Frozen, replace

STAGES: Final[tuple[Stage, ...]] = get_args(Stage)


class Progress(Frozen):
    doing: str = ""
    """A sentence. May quote the repository: untrusted."""
    counted: Count | None = None
    """The numbers in `doing`; None if nothing is counted."""
    environment: str = ""
    """How well the environment of the run works. May quote the repository: untrusted."""
    stages: dict[Stage, datetime] = Field(default_factory=dict[Stage, datetime])
    """When each stage began; the latest is under way."""
    expected: tuple[float, float] | None = None
    """How many seconds the middle half of the latest runs took; None: too few have ended."""
    costs: tuple[float, float] | None = None
    """How many dollars the middle half of the latest fixes cost; None: too few have ended."""
    ceiling: float = 0.0
    """In US dollars; 0 while it is not known."""
    files: int = 0
    tests: int = 0
    edits: int = 0
    edits_begun: int = 0
    heard: int = 0
    """Comments, written since the run began, that what began later knows."""
    suite_tests: int = 0
    """The repository's own tests that ran on the unedited code."""
    suite_run: int = 0
    """Tests of the repository that ran after that, with an edit or again; one counts each time."""
    suite_runs: int = 0
    dollars: float = 0.0
    at: datetime = Field(default_factory=now)


class ProgressTracker:
    """Folds a run's events into its `Progress`, and passes on every change."""

    def __init__(
        self, on_change: Callable[[Progress], None], before: Progress | None = None
    ) -> None:
        """`before` is what an earlier worker reported of the same run."""
        progress = before or Progress()
        self._progress = replace(progress, stages=progress.stages or {"environment": now()})
        self._on_change = on_change
        self._written: dict[tuple[str, int], str] = {}
        self._suite_runs: dict[str, int] = {}

    def report(self, event: Event) -> None:
        if changes := self._fold(event):
            self._progress = replace(self._progress, **changes, at=now())
            self._on_change(self._progress)

    def _fold(self, event: Event) -> Mapping[str, object]:
        match event:
            case StageBegan(stage, text):
                return {"stages": self._begin(stage), "doing": text, "counted": None}
            case Doing() | FilesRead():
                text, count = describe(event)
                files = {"files": event.done} if isinstance(event, FilesRead) else {}
                return {"doing": text, "counted": count, **files}
            case Written():
                return self._count_written(event)
            case SuiteRan():
                return self._count_suite(event)
            case EnvironmentFound(line):
                return {"environment": line}
            case CommentsHeard(comments):
                return {"heard": max(comments, self._progress.heard)}
            case Spent(dollars, ceiling):
                return {"dollars": dollars, "ceiling": ceiling}

    def _begin(self, stage: Stage) -> Mapping[Stage, datetime]:
        """When each stage began; a stage that a later one has followed does not begin again."""
        began = self._progress.stages
        is_latest = all(STAGES.index(one) < STAGES.index(stage) for one in began)
        return {**began, stage: now()} if is_latest else began

    def _count_written(self, event: Written) -> Mapping[str, object]:
        """What an earlier worker counted stays counted until as much is found again."""
        key = (event.what, event.sample)
        if self._written.get(key) != "written":
            self._written[key] = event.state
        states = [state for (what, _), state in self._written.items() if what == event.what]
        if event.what == "script":
            return {"tests": max(self._progress.tests, states.count("written"))}
        edits = max(self._progress.edits, states.count("written"))
        return {"edits": edits, "edits_begun": edits + states.count("begun")}

    def _count_suite(self, event: SuiteRan) -> Mapping[str, object]:
        """Tests that run near an edit while it is written are not the suite."""
        if "choice" not in self._progress.stages:
            return {}
        if event.is_unedited:
            return {"suite_tests": max(event.tests, self._progress.suite_tests)}
        self._suite_runs[event.key] = event.tests
        runs = self._suite_runs.values()
        return {"suite_runs": len(runs), "suite_run": sum(runs)}


def describe(event: Event) -> Doing:
    """What `event` says that the run does now; an empty sentence if nothing."""
    match event:
        case Doing():
            return event
        case StageBegan(_, text):
            return Doing(text)
        case FilesRead(done, total):
            count = Count(done, total, "files")
            return Doing(f"The scout has read {done:,} of {total:,} files.", count)
        case _:
            return Doing("")


def range_of_durations(durations: Sequence[float]) -> tuple[float, float] | None:
    """The quartiles of what runs took; None where too few have ended."""
    if len(durations) < 3:
        return None
    low, _, high = statistics.quantiles(durations, n=4, method="inclusive")
    return low, high


def range_of_costs(ended: Iterable[tuple[Mode, float]]) -> tuple[float, float] | None:
    """The quartiles of the dollars of the last 20 fixes that cost any, from all runs in order."""
    paid = [dollars for mode, dollars in ended if dollars and mode in (Mode.FIX, Mode.AUTO)]
    return range_of_durations(paid[-20:])
