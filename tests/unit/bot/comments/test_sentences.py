"""The table of sentences: each names the field of the run that it rests on, and goes with it."""

import asyncio
import re
import tomllib
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any, Final

import pytest
from jinja2 import Environment, FileSystemLoader
from pydantic import BaseModel
from rich.console import Console

from bot.cli.live_display import LiveDisplay
from bot.cli.local_run import end_sentence
from bot.cli.report import build_report, render_report
from bot.comments.candidates import render_verdict
from bot.comments.pull_request import pull_body
from bot.comments.replies import render_plan, run_explanation, run_status
from bot.comments.settings_file import render_config
from bot.comments.statistics import PullCounts, Stats, render_stats
from bot.comments.status import render_no_fix
from bot.data import marks
from bot.data.job import Outcome
from bot.data.run import Lane, Mode, QueuePosition, RunId, RunStatus, SkippedComments, now
from bot.queue.position import Waiting
from bot.repo_config.model import EffectiveConfig, RepoConfig
from bot.server.pages import TEMPLATES, Pages
from bot.server.run_edits import build_edit_table
from bot.server.run_list import RunFilter, list_runs
from bot.server.run_report import (
    EnvironmentShown,
    FileRow,
    FilesShown,
    RemarkShown,
    RunReport,
    build_timeline,
)
from bot.settings import Settings
from bot.storage.workers import WorkerState
from pipeline.data.code_places import Context, Findings, ShownFile
from pipeline.data.options import Recalibration
from pipeline.data.suite_reports import CutShort, FurtherScript, Standing, SuiteReport, SuiteRun
from pipeline.data.types import (
    Candidate,
    CommitSha,
    FixedSince,
    NoFix,
    RejectedEdit,
    Selection,
    TestScript,
)
from pipeline.select import Choice
from pipeline.selection.verdict import Judgement, Verdict
from pipeline.workflows.plan import Plan
from sandbox.frozen import replace
from tests.support.data.publishing import ACCOUNTS, FAILS, PASSES, a_run, selection_of_three
from tests.unit.bot.comments.run_at_work import BEGAN, PROGRESS, WORKING

_RAN = SuiteRun(execution=PASSES, passed=("a", "b"), failed=("c",), raised={"c": "KeyError"})
_STANDING = Standing(
    votes=2, passes=2, support=2, same_as=0, behaves_as=0, execution=1.0, prior=1.0, broken=()
)


def fill() -> Selection:
    """A selection of which every fact can be told."""
    chosen = selection_of_three()
    proof = chosen.evidence
    first, taken, third = proof.votes.candidates
    again = Candidate(
        sample=3, patch=taken.patch, informed_by=(1,), fault="It loops.", fault_of=2
    )  # fmt: skip
    odd = Candidate(sample=4, patch=first.patch, source="#9")
    votes = replace(
        proof.votes,
        candidates=(first, taken, replace(third, summary="The sign."), again, odd),
        runs=(*proof.votes.runs, proof.votes.runs[1], proof.votes.runs[0]),
        flaky=(1,),
        rejected=(RejectedEdit(name="#34", why="It is closed."),),
    )
    suite = SuiteReport(
        command=("make", "check"),
        before=replace(_RAN, cut=CutShort(ran=2, selected=3)),
        after=replace(_RAN, passed=("a", "b", "d"), raised={"c": "ValueError"}),
        whole=9,
        chosen="those near it",
        failing=("x",),
        flaky=("y",),
        uncontrolled=True,
    )
    further = FurtherScript(text="z", base=FAILS, candidates=(1, 2), runs=(PASSES, FAILS))
    files = tuple(ShownFile(path=f"{n}.py", tokens=9, partial=False, why="") for n in "ab")
    context = Context(
        files=(),
        dropped=("far.py",),
        beside=("CONTRIBUTING.md",),
        numbered_entries="changelog",
        findings=Findings(
            way="scout", files=9, read=7, read_tokens=99, unknown=1, invented=2, shown=files
        ),
    )
    evidence = replace(
        proof,
        votes=votes,
        suite=suite,
        further=(further,),
        context=context,
        standings=tuple(replace(_STANDING, same_as=n) for n in (0, 1, 2, 1, 0)),
        reproduced=("fails", "passes", None, "passes", "fails"),
        order=(1, 2, 0),
        notes=("A note.",),
        cut_short="The limit was reached.",
        unseen=3,
    )
    learnt = Recalibration(shift=0.1, outcomes=9)
    return replace(chosen, evidence=evidence, recalibration=learnt)


FULL: Final = fill()
RUN: Final = replace(a_run(), skipped=SkippedComments(untrusted=2, pictures=1))
NO_FIX: Final = NoFix(
    reason="already fixed",
    details=("It is so.",),
    script="x",
    suspects=("a.py",),
    fixed_since=FixedSince(commit="1" * 40, subject="Mend"),
)

OVER: Final = replace(
    a_run(),
    status=RunStatus.OPENED_PULL_REQUEST,
    started_at=BEGAN,
    finished_at=now(),
    dollars=0.5,
    pull_request=12,
    pull_request_url="https://github.com/acme/shop/pull/12",
)
OTHER: Final = replace(
    OVER, id=RunId("other"), mode=Mode.FOLLOW_UP, status=RunStatus.FAILED, pull_request_url=""
)
PLAN: Final = Plan(files=("shop.py",), script=TestScript(text="x"), run=FAILS, ceiling=4)
STATS: Final = Stats(
    period="in the last 90 days",
    since=BEGAN - timedelta(days=90),
    begins=BEGAN - timedelta(days=30),
    runs={RunStatus.OPENED_PULL_REQUEST: 16, RunStatus.NO_FIX: 3, RunStatus.FAILED: 1,
          RunStatus.STOPPED: 2, RunStatus.REFUSED: 1},
    others=4,
    dollars=12.5,
    pulls=PullCounts(
        open=2, merged=13, closed=3, reverted=1, recorded=11, first_choice=9, swapped=3,
        looked_at=12, by_people=5, not_all_pulls=True, not_all_commits=True,
    ),
)  # fmt: skip
REPORT: Final = RunReport(
    timeline=build_timeline(WORKING, PROGRESS, ACCOUNTS),
    files=FilesShown((FileRow("shop.py", 9, True, "It adds."),), 1, 80, 9, 999, 3),
    environment=EnvironmentShown("It works.", "10 tests pass.", "3.12", "pytest", ("one", "two")),
    title="total() subtracts",
    confidence=0.85,
    remarks=(RemarkShown("bob", "Why?"),),
    answer="Because.",
    destinations="Code was sent to `api.example`.",
    others=(replace(OVER, id=RunId("r0"), dollars=1.25),),
    has_bundle=True,
)

Facts = dict[str, Any]
Row = tuple[str, str, object]


def choose(chosen: Selection, written: int) -> Choice:
    """What `judge` and `select` choose where a run chose `chosen`."""
    proof, same = chosen.evidence, {"order", "further", "standings", "notes", "suite"}
    verdict = Verdict(
        method="evidence",
        chosen=proof.votes.candidates.index(chosen.candidate),
        confidence=chosen.confidence,
        **{name: getattr(proof, name) for name in same},
    )
    return Choice(Judgement(proof.votes, verdict), None, written)


def told(facts: Facts) -> str:
    return "\n".join(
        (
            pull_body(facts["run"], facts["selection"], facts["accounts"]),
            run_explanation(
                replace(facts["run"], status=RunStatus.OPENED_PULL_REQUEST), facts["selection"]
            ),
            render_no_fix(facts["run"], facts["no fix"]),
            *(
                render_report(Outcome(facts[end], facts["accounts"]), facts["hosts"])
                for end in ("selection", "no fix")
            ),
            render_verdict(
                Outcome(choose(facts["selection"], facts["written"]), facts["accounts"])
            ),
        )
    )


ALL: Final[Facts] = {
    "run": RUN,
    "selection": FULL,
    "accounts": ACCOUNTS,
    "no fix": NO_FIX,
    "hosts": ("api.example",),
    "written": 2,
    "earlier": 600.0,
    "working": WORKING,
    "progress": PROGRESS,
    "wait": QueuePosition(position=3, expected_seconds=(1200, 1800)),
    "plan": PLAN,
    "usual": (1.0, 2.0),
    "stats": STATS,
    "set": {"samples": "capuchin.yml"},
    "report": REPORT,
    "over": (OVER, OTHER),
    "queue": (Waiting(a_run(), QueuePosition(position=1, expected_seconds=(600, 1200))),),
    "workers": (WorkerState(name="w-1", slots={Lane.ISSUES: 2}, busy={Lane.ISSUES: 1}),),
}
PROOF: Final = "selection.evidence"
TABLE: Final[dict[str, list[list[Any]]]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text("utf-8")
)
FURTHER: Final[tuple[tuple[str, str, str, object], ...]] = (
    ("told", r"⏱ times out", f"{PROOF}.votes.runs", ((PASSES, PASSES),) * 5),
    ("answered", r"My records of runs begin on", "stats.begins", STATS.since),
    ("answered", r"3 found no fix to propose", "stats.runs", {RunStatus.FAILED: 1}),
    ("paged", r"2 ended in the last 30 days", "over", (OVER,)),
    ("paged", r"All runs 2", "over", (OVER,)),
    ("paged", r"1 of 1 that tried a fix opened", "over.0.status", RunStatus.NO_FIX),
    ("paged", r"of a pull request requested by alice", "over.1.mode", Mode.PLAN),
)
"""Rows with values that are not in the table's file."""


def frozen(value: Any) -> object:
    """A value of the file as the fields hold it."""
    return tuple(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def list_rows(voice: str) -> list[Row]:
    """The rows of one voice: a sentence, the field that it rests on, and a value of that with which
    it goes, or comes."""
    rows: list[Row] = [row[1:] for row in FURTHER if row[0] == voice]
    for sentence, path, *rest in TABLE[voice]:
        without = rest[0] if rest else None
        rows.append((sentence, path, frozen(without)))
    return rows


ALWAYS: Final = "|".join(
    f"^{begin}"
    for begin in (
        r"(What was wrong|What changed|Evidence|Limits|Edits × scripts|Output with the change)$",
        r"Before: it fails|After: it passes|On the original code it fails|With [AB] it prints:",
        r"Edit [ABC], as a diff|Script \d: on the unedited code it fails; |Cost: |\*\*After:\*\*",
        r"The repository's own tests, `make check`:|These fail with and without|I left these out",
        r"Fixes #7|`total\(\)`|It adds|`tests/test_total.py` is new\.|Run it with|Run `r1`",
        r"A passing test shows|Comment on a line or request|Requested by @alice|No run is active\.",
        r"I estimate that it is|It is so|`a\.py`|Make total\(\) add$|No fix$",
        r"\*\*I would choose `A`|Tests share a process with the edit|\d\. `",
        r"· Show the fix with a test|☐|✅ Check the|I am working on it, as @alice|`[\w.]+`: `",
        r"This is how I would start|\*\*Where I would look|Output:|Defaults of the other keys$",
        r"(1 failed|2 stopped by a person|1 not started: .*|3 closed .*|2 open|16 opened .*)$",
    )
)
"""What stands in each of these texts: headings, frames, and what the fields themselves hold."""


def take(facts: Any, path: str, value: object) -> Any:
    """The same facts with another value at the path."""
    name, _, rest = path.partition(".")
    if isinstance(facts, BaseModel) or hasattr(facts, "_replace"):
        new = take(getattr(facts, name), rest, value) if rest else value
        return (
            replace(facts, **{name: new})
            if isinstance(facts, BaseModel)
            else facts._replace(**{name: new})
        )
    every: dict[str, Any] = facts if name in ALL else {str(at): one for at, one in enumerate(facts)}
    every = {**every, name: take(every[name], rest, value) if rest else value}
    return every if name in ALL else tuple(every.values())


EDITS: Final = Environment(loader=FileSystemLoader(TEMPLATES)).get_template("edits.html")


def shown(facts: Facts) -> str:
    """What a run's page and the end of a command show beside that."""
    outcome = Outcome(facts["selection"], facts["accounts"])
    report = RunReport(edits=build_edit_table(facts["selection"]))
    end = end_sentence(build_report(outcome, CommitSha("0" * 40)), "Proven fix", "a minute")
    return f"{EDITS.render(report=report, words=marks)}\n{end}"


def displayed(facts: Facts) -> str:
    """What a terminal shows while a run works."""
    console = Console(file=StringIO(), width=200)
    display = LiveDisplay(console)
    display.earlier = facts["earlier"]
    display.show(facts["progress"], facts["progress"].ceiling)
    with console.capture() as found:
        console.print(display)
    display.close()
    return found.get()


def answered(facts: Facts) -> str:
    """What commands answer, beside `explain`."""
    working, progress = facts["working"], facts["progress"]
    config = EffectiveConfig(RepoConfig(), facts["set"])
    return "\n".join(
        (
            run_status(working, progress=progress),
            run_status(replace(working, status=RunStatus.QUEUED), facts["wait"]),
            run_status(facts["over"][0]),
            render_plan(working, facts["plan"], facts["usual"]),
            render_stats(facts["stats"]),
            render_config(config),
        )
    )


def paged(facts: Facts) -> str:
    """The pages of a run at work, of one that is over, and of all runs, as text."""
    pages, wanted = Pages(Settings(github_url="https://github.com")), RunFilter()
    over = facts["over"]
    fill = partial(pages.fill_run, progress=facts["progress"], is_operator=True)
    every = (
        fill(facts["working"], report=facts["report"]),
        fill(over[0], report=facts["report"]),
        pages.fill_runs(
            list_runs(over, wanted, most=2),
            wanted,
            {run.id: "total() subtracts" for run in over},
            queue=facts["queue"],
            workers=facts["workers"],
        ),
    )
    text = "\n".join(map(asyncio.run, every))
    text = re.sub(r"<(style|title|svg)\b.*?</\1>", "", text, flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]*>", "", text))


VOICES: Final = (told, shown, displayed, answered, paged)


@pytest.mark.parametrize("say", [told, displayed, answered])
def test_each_line_is_a_row_of_the_table_or_stands_always(say: Callable[[Facts], str]) -> None:
    text = re.sub(r"`{3,}.*?`{3,}", "", say(ALL), flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->|</?(?:details|summary|sub)>", "\n", text)
    lines = [f"{line.strip('-#> ')}\n" for line in text.split("\n") if not line.startswith("|")]
    rows = [ALWAYS, *(sentence for sentence, _, _ in list_rows(say.__name__))]
    assert [one for one in lines if one[1:] and not any(re.search(row, one) for row in rows)] == []


@pytest.mark.parametrize(
    ("say", "sentence", "path", "without"),
    [(say, *row) for say in VOICES for row in list_rows(say.__name__)],
)
def test_a_sentence_goes_with_its_fact(
    say: Callable[[Facts], str], sentence: str, path: str, without: object
) -> None:
    said = [re.search(sentence, say(facts)) for facts in (ALL, take(ALL, path, without))]
    assert any(said)
    assert not all(said)
