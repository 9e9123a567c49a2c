"""What a run's page shows: stages with times, models, cost."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple, TypeVar

from bot.comments.candidates import describe_use
from bot.comments.run_details import destinations_note, external_hosts
from bot.comments.status import STAGE_TITLES
from bot.data.progress import STAGES, Progress, Stage
from bot.data.run import Mode, Run, now
from bot.followup.feedback import BATCH_KEY, FeedbackBatch
from bot.safe_text import make_visible
from bot.server.run_edits import EditTable, build_edit_table
from bot.settings import Settings
from bot.storage.checkpoints import RedisStore
from bot.storage.keys import ISSUE_KEY
from bot.storage.storage import Storage
from pipeline.data.code_places import Context, Findings
from pipeline.data.types import Account, Issue, NoFix, Selection, Usage
from pipeline.environment.prepare import FAILED_KEY
from pipeline.environment.record import EnvironmentRecord
from pipeline.models.metering import LEDGER_KEY, Ledger
from pipeline.run_errors import UnreadableRecord
from pipeline.selection.verdict import to_letter
from pipeline.workflows.outcome import load_context, load_end
from pipeline.workflows.revise import REVISING_KEY, ReviseState
from prompts.text import shorten

MOST_SAID: Final = 3_000

_CALLS: Final[Mapping[Stage, tuple[str, ...]]] = {
    "environment": ("environment",),
    "context": ("pictures", "relevance", "ranking", "understanding", "localisation", "prm"),
    "edits": ("approaches", "testing", "editing", "exploring"),
    "choice": ("selecting", "choosing", "orm"),
    "reproduction": ("reproduction",),
}
"""The accounts' stages that belong to each stage of the page."""


class StageRow(NamedTuple):
    """One stage; the dollars are at list prices."""

    name: Stage | Literal["other"]
    title: str
    state: Literal["done", "now", "to do", "unknown"]
    """`unknown`: its times were not kept."""
    began: datetime | None
    seconds: float | None
    """None before it began, and if its times were not kept."""
    calls: int
    usage: Usage
    dollars: float
    left: float = 0.0
    width: float = 0.0
    """Start and width of its bar, in percent of the run's time; 0 without times."""


def build_timeline(
    run: Run, progress: Progress, accounts: Sequence[Account]
) -> tuple[StageRow, ...]:
    """The stages in order; empty if neither times nor costs of the run are known."""
    began = progress.stages
    if not began and not accounts:
        return ()
    rows = [_build_row(stage, run, began, accounts) for stage in STAGES]
    known = {call for calls in _CALLS.values() for call in calls}
    others = [one for one in accounts if one.stage not in known]
    if others:
        rows.append(StageRow("other", "Other", "unknown", None, None, *_sum(others)))
    return tuple(_place(rows))


def _build_row(
    stage: Stage, run: Run, began: Mapping[Stage, datetime], accounts: Sequence[Account]
) -> StageRow:
    mine = [one for one in accounts if one.stage in _CALLS[stage]]
    start = began.get(stage)
    later = [began[one] for one in STAGES[STAGES.index(stage) + 1 :] if one in began]
    end = min(later, default=run.finished_at)
    state: Literal["done", "now", "to do", "unknown"] = "done"
    if start is None:
        state = "unknown" if run.status.final or later or mine else "to do"
    elif end is None:
        state = "now"
    seconds = None if start is None else max(0.0, ((end or now()) - start).total_seconds())
    return StageRow(stage, STAGE_TITLES[stage], state, start, seconds, *_sum(mine))


def _sum(accounts: Sequence[Account]) -> tuple[int, Usage, float]:
    usage = sum((one.usage for one in accounts), Usage())
    return sum(one.calls for one in accounts), usage, sum(one.dollars for one in accounts)


def _place(rows: Sequence[StageRow]) -> list[StageRow]:
    """The rows with the places of their bars."""
    total = sum(max(row.seconds or 0.0, 0.0) for row in rows)
    widths = [
        0.0 if row.seconds is None else max(0.6, 100 * row.seconds / (total or 1.0)) for row in rows
    ]
    scale = 100 / (sum(widths) or 100.0)
    placed: list[StageRow] = []
    left = 0.0
    for row, width in zip(rows, widths, strict=True):
        placed.append(row._replace(left=round(left, 2), width=round(width * scale, 2)))
        left += width * scale
    return placed


T = TypeVar("T")
logger = logging.getLogger(__name__)


class FileRow(NamedTuple):
    """A file shown to the model; untrusted."""

    path: str
    tokens: int
    partial: bool
    why: str


class FilesShown(NamedTuple):
    rows: tuple[FileRow, ...]
    more: int
    of: int
    tokens: int
    searched_tokens: int
    without_room: int
    """The number of relevant files that did not fit."""


class EnvironmentShown(NamedTuple):
    verdict: str
    """Whether it works; empty if nothing could be installed."""
    summary: str
    python: str
    command: str
    attempts: tuple[str, ...]


class RemarkShown(NamedTuple):
    """What a person asked for; untrusted."""

    by: str
    text: str


class RunReport(NamedTuple):
    """Each part is empty while it is unknown, and after it has expired."""

    timeline: tuple[StageRow, ...] = ()
    edits: EditTable | None = None
    files: FilesShown | None = None
    environment: EnvironmentShown | None = None
    title: str = ""
    """The issue's; untrusted."""
    confidence: float | None = None
    """How likely the proposed edit is right; None if a person chose it."""
    remarks: tuple[RemarkShown, ...] = ()
    answer: str = ""
    """What the model answered to it; untrusted."""
    destinations: str = ""
    others: tuple[Run, ...] = ()
    has_bundle: bool = False


async def load_report(
    storage: Storage, settings: Settings, run: Run, progress: Progress
) -> RunReport:
    """The report on `run` without unreadable parts. Raises redis-py's errors."""
    store = storage.checkpoints(run.id)
    others = await storage.run_queries.list_of_issue(run.repo, run.issue)
    ledger = await _load(store.load(LEDGER_KEY, Ledger)) or Ledger()
    end = await _load(load_end(store)) if run.status.final else None
    documents = await _load(store.list_documents()) or []
    title = await load_title(storage, run)
    batch = await _load(store.load(BATCH_KEY, FeedbackBatch))
    revised = await _load(store.load(REVISING_KEY, ReviseState))
    chosen = end if isinstance(end, Selection) and end.decided_by != "person" else None
    said = [(one.by, one.text) for one in (batch.remarks[:20] if batch else ())]
    answer = revised.answer if revised else ""
    if run.mode is Mode.USE:
        said = [(run.asked_by, f"use {to_letter(run.candidate - 1)}{' anyway' * run.anyway}")]
        answer = describe_use(run)
    return RunReport(
        title=title,
        confidence=chosen.confidence if chosen else None,
        remarks=tuple(
            RemarkShown(make_visible(by), make_visible(shorten(text, MOST_SAID)))
            for by, text in said
        ),
        answer=make_visible(shorten(answer, MOST_SAID)),
        timeline=load_timeline(run, progress, ledger),
        edits=build_edit_table(end) if end else None,
        files=_show_files(await _load_context(store, end)),
        environment=_show_environment(await _load_environment(store, documents)),
        destinations=destinations_note(
            external_hosts(ledger.sent_to, settings, by_app=True), ledger.accounts, by_app=True
        ),
        others=tuple(one for one in others if one.id != run.id),
        has_bundle=run.status.final and bool(documents),
    )


def load_timeline(run: Run, progress: Progress, ledger: Ledger) -> tuple[StageRow, ...]:
    """The timeline; for runs that fix no issue, only the stages that called a model."""
    if run.mode in (Mode.FIX, Mode.AUTO, Mode.PLAN):
        return build_timeline(run, progress, ledger.accounts)
    rows = build_timeline(run, Progress(), ledger.accounts)
    return tuple(row for row in rows if row.calls)


async def load_title(storage: Storage, run: Run) -> str:
    """The title of its issue; empty once it has expired. Untrusted."""
    issue = await _load(storage.checkpoints(run.id).load(ISSUE_KEY, Issue))
    return make_visible(issue.title[:300]) if issue else ""


async def load_ledger(storage: Storage, run: Run) -> Ledger:
    """What `run` has spent so far; empty if it cannot be read."""
    return await _load(storage.checkpoints(run.id).load(LEDGER_KEY, Ledger)) or Ledger()


async def _load(asked: Awaitable[T]) -> T | None:
    """The result of `asked`; None if it is damaged or Redis stops answering."""
    try:
        async with asyncio.timeout(5):  # a store would wait for Redis longer
            return await asked
    except (TimeoutError, UnreadableRecord) as error:
        logger.warning("A part of a run's page is missing: %s", error or "Redis does not answer.")
        return None


async def _load_context(store: RedisStore, end: Selection | NoFix | None) -> Context | None:
    if isinstance(end, Selection) and end.evidence.context.findings:
        return end.evidence.context
    if isinstance(end, NoFix) and end.edits and end.edits.context:
        return end.edits.context
    return await _load(load_context(store))


async def _load_environment(
    store: RedisStore, documents: Sequence[str]
) -> EnvironmentRecord | None:
    found = [name for name in documents if re.fullmatch(r"environment/[^/]+/record", name)]
    return await _load(store.load(found[-1] if found else FAILED_KEY, EnvironmentRecord))


def _show_files(context: Context | None) -> FilesShown | None:
    found: Findings | None = context.findings if context else None
    if context is None or found is None:
        return None
    rows = tuple(
        FileRow(make_visible(one.path[:300]), one.tokens, one.partial, make_visible(one.why[:300]))
        for one in found.shown[:60]
    )
    return FilesShown(
        rows=rows,
        more=len(found.shown) - len(rows),
        of=found.files,
        tokens=sum(one.tokens for one in found.shown),
        searched_tokens=found.read_tokens,
        without_room=len(context.without_room),
    )


def _show_environment(record: EnvironmentRecord | None) -> EnvironmentShown | None:
    if record is None or not record.tried:
        return None
    health = record.health
    return EnvironmentShown(
        verdict=f"It {health.works}." if health else "",
        summary=make_visible(health.summary()[:700]) if health else "",
        python=make_visible(health.python[:60]) if health else "",
        command=make_visible(" ".join(health.command)[:300]) if health else "",
        attempts=tuple(make_visible(line[:700]) for line in record.lines()[:12]),
    )
