"""Every text that people see on GitHub, kept whole as they read it, and readable on a phone."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from datetime import UTC, datetime
from types import ModuleType

import pytest

from bot.commands.dispatch import VERBS
from bot.comments import candidates, config, config_proposal, followup, replies, stats, verdict
from bot.comments import pull_request as evidence
from bot.comments import status as comments
from bot.comments.candidates import Held
from bot.github.models import LinkedPull, Signs
from bot.repo_config.layers import Effective, Layer, LayerProblem, combined
from bot.repo_config.model import CANDIDATES, ConfigProblem
from bot.storage.progress import Progress
from bot.types import Failure, Heard, Limit, Mode, RunStatus, Stop, StopReason, Wait, changed
from pipeline.types import NoFix, TestScript
from pipeline.workflows.plan import Estimate, Plan
from pipeline.workflows.verify import Verification
from sandbox.base import Ending, Execution
from tests.support import phone_readability
from tests.support.data.publishing import BREAKS, FAILS, PASSES, a_run, a_selection
from tests.support.snapshots import assert_snapshot
from tests.unit.bot.comments import edit_texts as edits

Bodies = Mapping[str, str]

RUN = changed(a_run(), page="https://bot.acme.test/runs/r1?key=k", dollars=0.42)
CHOSEN = a_selection()
DONE = changed(RUN, status=RunStatus.OPENED_PULL_REQUEST, pull_request=12)
LONG = (
    "def test_it():\n    assert total(1, 2) == 3  # a line that is much wider than any phone\n" * 9
)
SAID = Execution(exit_code=2, output=LONG, seconds=0.1, ending=Ending.EXIT)
NO = NoFix(
    reason="no edit passes its test",
    learnt=("`total()` subtracts.", "3 different edits were tried."),
    suspects=("shop/till.py",),
    script=LONG,
)
PULL = LinkedPull.model_validate({"number": 9, "state": "open", "user": {"login": "bob"}})


def stopped(why: StopReason, by: str = "alice") -> str:
    label = "capuchin:disabled" if why is StopReason.DISABLED else ""
    return comments.stopped(changed(RUN, stop=Stop(by=by, why=why, label=label)))


def effective(organisation: str, repository: str) -> Effective:
    layers = [("acme/.github: .github/capuchin.yml", organisation), (CANDIDATES[0], repository)]
    found = combined([Layer(source, text) for source, text in layers])
    assert isinstance(found, Effective)
    return found


STATUS: Bodies = {
    "queued": comments.queued(RUN, Wait(place=3, seconds=1500)),
    "started": comments.started(RUN),
    "working": comments.working(
        RUN, Progress(doing="Writing 10 tests.", files=12, tests=1, edits=3, dollars=0.5)
    ),
    "waiting": comments.waiting(RUN, Failure.MODEL_UNAVAILABLE),
    "kept away": replies.opted_out(RUN, "capuchin:disabled"),
    "edited since": replies.edited_since(RUN),
    "a dry run begins": comments.started(changed(RUN, mode=Mode.PLAN)),
    "judging begins": comments.started(changed(RUN, mode=Mode.JUDGE, pulls=(12, 34))),
    "using another begins": comments.started(changed(RUN, mode=Mode.USE, candidate=2)),
    "opened": comments.opened(changed(RUN, not_read=replies.not_read(Heard(strangers=2))), 12,
                              draft=True),
    "no fix": comments.no_fix(RUN, NO),
    "planned": replies.planned(
        RUN,
        Plan(files=("shop/till.py", "shop/cart.py"), script=TestScript(text=LONG), run=SAID,
             estimate=Estimate(dollars=1.5, most=4)),
    ),
    "used": candidates.used(changed(RUN, mode=Mode.USE, candidate=2), 12, CHOSEN),
    "not used": candidates.not_used(RUN, "#12 is no longer open."),
    "not judged": comments.not_judged(RUN),
    "asked back": replies.asked_back(
        RUN, Signs(locked=True, assignees=("bob",), pulls=(PULL,), branches=("7-mend",)), "capuchin"
    ),
    "withdrawn: trust": comments.withdrawn(RUN, "trust"),
    "withdrawn: disabled": comments.withdrawn(RUN, "disabled"),
    **{f"stopped: {why}": stopped(why) for why in StopReason},
    "stop came late": comments.stop_came_late(RUN, 12),
    **{f"failed: {failure}": comments.failed(RUN, failure, f"pip install .\nIt broke.\n{LONG}")
       for failure in Failure},
}  # fmt: skip

NO_PULLS = stats.Pulls()
STATS = stats.Stats(
    days=90,
    since=datetime(2026, 1, 2, tzinfo=UTC),
    begins=datetime(2025, 11, 5, tzinfo=UTC),
    runs={RunStatus.OPENED_PULL_REQUEST: 5, RunStatus.NO_FIX: 3, RunStatus.FAILED: 1,
          RunStatus.STOPPED: 1, RunStatus.REFUSED: 1, RunStatus.ASKED_BACK: 1},
    others=0,
    dollars=12.5,
    pulls=stats.Pulls(open=1, merged=3, closed=1, recorded=3, first_choice=3, looked_at=3),
)  # fmt: skip
BIG = STATS._replace(
    begins=datetime(2026, 2, 3, tzinfo=UTC),
    others=4,
    pulls=stats.Pulls(
        open=2, merged=40, closed=10, reverted=4, recorded=38, first_choice=35, swapped=3,
        looked_at=20, by_people=6, not_all_pulls=True, not_all_commits=True,
    ),
)  # fmt: skip

ANSWERS: Bodies = {
    "help": replies.helped(
        "capuchin",
        [(f"{name} {verb.words}".strip(), verb.does) for name, verb in VERBS.items()],
        "capuchin",
    ),
    "unknown": replies.unknown("capuchin", "stauts", "status"),
    "not here": replies.not_here("judge"),
    "fix or retry while it works": replies.waits("capuchin"),
    "fix on another's pull request": replies.not_mine(),
    "stop: nothing runs": replies.nothing_runs(),
    "status: no run": replies.no_run("capuchin"),
    "status: queued": replies.status(changed(RUN, status=RunStatus.QUEUED), 2),
    "status: working": replies.status(changed(RUN, status=RunStatus.RUNNING), 0),
    "status: over": replies.status(DONE, 0),
    "explain": replies.explained(
        DONE, CHOSEN, candidates.edits_of("capuchin", Held(CHOSEN, 12, 1))
    ),
    "explain: no fix": replies.explained(
        changed(RUN, status=RunStatus.NO_FIX), NO,
        candidates.edits_of("capuchin", Held(CHOSEN, 12, 2)),
    ),
    "explain: failed": replies.explained(
        changed(RUN, status=RunStatus.FAILED, failure=Failure.MODEL_UNAVAILABLE), None
    ),
    "config": config.as_comment(effective("samples: 3", "draft: true")),
    "stats": stats.told(STATS),
    "stats: the records do not reach": stats.told(BIG),
    "stats: nothing": stats.told(
        STATS._replace(days=1, begins=None, runs={}, others=0, dollars=0.0, pulls=NO_PULLS)
    ),
    "stats: what days": stats.how_many_days("capuchin", 365),
    "config: no file": config.as_comment(effective("", "")),
    "config propose: done": config_proposal.proposed(12),
    "config propose: there is one": config_proposal.there_already(CANDIDATES[0]),
    "config propose: no branch": config_proposal.no_branch(),
    "config: invalid": replies.config_invalid(
        LayerProblem(".github/capuchin.yml", ConfigProblem(line=3, column=1, message="Is it?"))
    ),
    "use: which": candidates.use_what("capuchin", Held(CHOSEN, 12, None)),
    "use: nothing": candidates.nothing_to_use(),
    "use: no longer kept": candidates.no_longer_kept(12),
    "use: on the pull request": candidates.told_on(7),
    "judge: which": candidates.judge_what("capuchin", 20),
}  # fmt: skip

REFUSALS: Bodies = {
    "write": replies.refused("mallory"),
    "triage": replies.refused("mallory", ("triage",)),
    "named": replies.refused("mallory", ("carol",)),
    **{f"quota: {of}": replies.over_quota("alice", Limit(of, 20))
       for of in ("person", "repository", "installation")},
    "quota of a reviewer": followup.over_quota("alice", Limit("person", 20)),
    "the day's ceiling, repository": followup.paused("repository", "2026-01-02"),
    "the day's ceiling, operator": followup.paused("installation", "2026-01-02"),
}  # fmt: skip

MARKERS = [followup.answer_marker("line-1")]
TENDED: Bodies = {
    "answered": followup.answered([("alice", "It sums now. Thanks @all.")], "abc1234", MARKERS),
    "answered, nothing changed": followup.answered([("alice", "It is meant so.")], "", MARKERS),
    "answered, several people": followup.answered(
        [("alice", "Renamed."), ("carol", "It stays.")], "abc1234", MARKERS
    ) + followup.left_out(2),
    "not managed": followup.not_managed(MARKERS, "capuchin", spent=False),
    "out of money": followup.not_managed(MARKERS, "capuchin", spent=True),
    "handed over": followup.handed_over(12),
    "rebased": followup.rebased("abc1234", followup.note_marker("rebased", "x")),
    "conflict": followup.conflict("main", followup.note_marker("conflict", "x")),
    "closed with its issue": followup.closed_with_issue(7, 12),
    "retired": followup.retired(30, 12),
    "stopped by a label": followup.stopped(
        changed(
            RUN,
            stop=Stop(by="alice", why=StopReason.DISABLED, label="capuchin:disabled"),
            dollars=0.25,
        ),
        followup.note_marker("stopped", "x"),
    ),
    "stopped": followup.stopped(
        changed(RUN, stop=Stop(by="alice", why=StopReason.COMMAND), dollars=0.25),
        followup.note_marker("stopped", "x"),
    ),
    "failed": followup.failed(Failure.MODEL_REFUSED, "", followup.note_marker("failed", "x")),
}  # fmt: skip

FOUND = Verification(path="tests/test_total.py", command=("python", "-m", "pytest"),
                     before=(FAILS, FAILS), after=(PASSES, PASSES))  # fmt: skip


def check(found: Verification) -> str:
    parts = [followup.check_title(found), followup.check_summary(found, "a" * 40, "main")]
    return "\n\n".join([*parts, followup.check_text(found)])


CHECKS: Bodies = {
    "running": f"{followup.checking_title()}\n\n"
    f"{followup.checking_summary('tests/test_total.py', 3)}",
    "shown": check(FOUND),
    "flaky": check(FOUND.model_copy(update={"after": (PASSES, BREAKS)})),
    "passes without": check(FOUND.model_copy(update={"before": (PASSES, PASSES)})),
    "fails with": check(FOUND.model_copy(update={"after": (FAILS, FAILS)})),
    "clash": f"{followup.clash_title()}\n\n{followup.clash_summary('main')}",
    "not run": f"{followup.not_checked_title()}\n\n{followup.not_checked_summary()}",
    "settings: valid": f"{config.checked_title(0)}\n\n"
    + config.checked({".github/capuchin.yml": []}),
    "settings: a mistake": f"{config.checked_title(1)}\n\n"
    + config.checked(
        {".github/capuchin.yml": [ConfigProblem(line=3, column=1, message="There is no such.")]}
    ),
}

GROUPS: Mapping[str, Bodies] = {
    "bodies_status": STATUS,
    "bodies_answers": ANSWERS,
    "bodies_refusals": REFUSALS,
    "bodies_follow_up": TENDED,
    "bodies_checks": CHECKS,
    "bodies_pull_request": edits.PULLS,
    "bodies_verdict": {**edits.VERDICTS, **edits.NOT_USED},
    "bodies_commits": edits.COMMITS,
}


@pytest.mark.parametrize("group", GROUPS)
def test_people_read_what_is_kept_here(group: str) -> None:
    bodies = GROUPS[group]
    assert_snapshot(group, "\n".join(f"======== {name}\n{text}" for name, text in bodies.items()))


@pytest.mark.parametrize("group", GROUPS)
def test_it_can_be_read_on_a_phone(group: str) -> None:
    found = {name: phone_readability.problems(text) for name, text in GROUPS[group].items()}
    assert {name: some for name, some in found.items() if some} == {}


def test_the_rule_for_phones_notices() -> None:
    wide = "| a column of some words | another one of them | and one more |\n|---|---|---|"
    assert phone_readability.problems(wide) == [f"a wide table: {wide.splitlines()[0]}"]
    assert (
        phone_readability.problems(f"<details>\n<summary>x</summary>\n\n{wide}\n\n</details>") == []
    )
    assert phone_readability.problems(f"```text\n{'x' * 50}\n```") == [
        f"a wide line of code: {'x' * 50}"
    ]
    assert phone_readability.problems("```text\n" + "x\n" * 20 + "```") != []
    assert phone_readability.problems("word " * 200) != []


INNER = {
    "status_marker", "request_marker", "reply_marker", "refusal_marker", "note_marker",
    "answer_marker", "in_status", "failure_reason", "no_fix_reason", "runners_up", "used_up",
    "not_read", "waits_for", "verdict_of", "account_of", "proof_of", "answered_by", "cost",
    "model_name", "price_notes",
    # For a terminal, an editor and the README.
    "as_lines",
    # A file, which its own test reads.
    "file_text", "marker_of",
}  # fmt: skip
"""What only other texts are made of."""


@pytest.mark.parametrize(
    "module",
    [
        comments,
        replies,
        candidates,
        followup,
        verdict,
        evidence,
        config,
        config_proposal,
        stats,
    ],
)
def test_no_text_is_left_out_above(module: ModuleType) -> None:
    here = inspect.getmodule(test_no_text_is_left_out_above) or module
    source = inspect.getsource(here) + inspect.getsource(edits)
    every = {
        name
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    assert {name for name in every - INNER if f".{name}(" not in source} == set()
