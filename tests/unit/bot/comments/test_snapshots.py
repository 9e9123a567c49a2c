"""Snapshots of every text that people see on GitHub, each readable on a phone."""

import inspect
from collections.abc import Mapping
from datetime import UTC, datetime
from types import ModuleType
from typing import get_args

import pytest

from bot.commands.verbs import VERBS
from bot.comments import candidates, followup, pull_request, refusals, replies, settings_file
from bot.comments import statistics as stats
from bot.comments import status as comments
from bot.comments.candidates import PullCandidates
from bot.comments.followup import Note
from bot.comments.replies import Reply
from bot.comments.unpublished import publish_reason
from bot.data.failure import NO_FACTS, Failure, FailureFacts, PublishProblem
from bot.data.github_facts import ExistingWork, LinkedPull
from bot.data.progress import Progress
from bot.data.refusal import OptOut, Stranger
from bot.data.run import (
    Login,
    Mode,
    QueuePosition,
    QuotaLimit,
    RunStatus,
    SkippedComments,
    Stop,
    StopReason,
)
from bot.repo_config.model import (
    CONFIG_PATHS,
    ConfigProblem,
    EffectiveConfig,
    LayerProblem,
    merge_layers,
    parse_config,
)
from pipeline.data.types import CommitSha, NoFix, TestScript
from pipeline.workflows.plan import Plan
from pipeline.workflows.verify import Verification
from sandbox.frozen import replace
from sandbox.program import Ending, Execution
from tests.support import phone_readability
from tests.support.data.publishing import BREAKS, FAILS, PASSES, a_run, a_selection
from tests.support.snapshots import assert_snapshot
from tests.unit.bot.comments import edit_texts as edits
from tests.unit.bot.comments.run_at_work import PROGRESS, WORKING

Bodies = Mapping[str, str]

RUN = replace(a_run(), page_url="https://bot.acme.test/runs/r1?key=k", dollars=0.42)
BEGUN = replace(RUN, comment_id=1)
CHOSEN = a_selection()
DONE = replace(RUN, status=RunStatus.OPENED_PULL_REQUEST, pull_request=12)
LONG = (
    "def test_it():\n    assert total(1, 2) == 3  # a line that is much wider than any phone\n" * 9
)
FAILED = FailureFacts(
    words="It broke.", command="pip install .", log=LONG, permissions=("issues: write",)
)
SAID = Execution(exit_code=2, output=LONG, seconds=0.1, ending=Ending.EXIT)
NO = NoFix(
    reason="no edit passes its test",
    details=("`total()` subtracts.", "3 different edits were tried."),
    suspects=("shop/till.py",),
    script=LONG,
    script_suffix=".py",
)
PULL = LinkedPull.model_validate({"number": 9, "state": "open", "user": {"login": "bob"}})


def stopped(why: StopReason, by: str = "alice") -> str:
    label = "capuchin:disabled" if why is StopReason.DISABLED else ""
    return comments.render_stopped(
        replace(RUN, stop=Stop(by=Login(by), why=why, label=label)), "capuchin"
    )


def effective(organisation: str, repository: str) -> EffectiveConfig:
    layers = [("acme/.github: .github/capuchin.yml", organisation), (CONFIG_PATHS[0], repository)]
    found = merge_layers([(source, parse_config(text)) for source, text in layers])
    assert isinstance(found, EffectiveConfig)
    return found


STATUS: Bodies = {
    "queued": comments.render_queued(RUN, QueuePosition(position=3, expected_seconds=(1200, 1800))),
    "queued, no worker": comments.render_no_worker(RUN),
    "started": comments.render_started(RUN),
    "working": comments.render_progress(
        RUN, Progress(doing="Writing 10 tests.", files=12, tests=1, edits=3, dollars=0.5)
    ),
    "working on its stages": comments.render_progress(WORKING, PROGRESS),
    "working in a hostile environment": comments.render_progress(
        RUN, Progress(doing="Trying a <b>way</b>.", environment="@all cannot *be* imported: <x>")
    ),
    "writes spent": replies.render_writes_spent(400, "12:34 UTC"),
    "waiting": comments.render_waiting(RUN, Failure.MODEL_UNAVAILABLE),
    "kept away": refusals.render_refusal(RUN, OptOut("capuchin:disabled"), "capuchin"),
    "edited since": refusals.render_refusal(RUN, "edited", "capuchin"),
    "a dry run begins": comments.render_started(replace(RUN, mode=Mode.PLAN)),
    "judging begins": comments.render_started(replace(RUN, mode=Mode.JUDGE, pulls=(12, 34))),
    "using another begins": comments.render_started(replace(RUN, mode=Mode.USE, candidate=2)),
    "opened": comments.render_opened(
        replace(RUN, skipped=SkippedComments(untrusted=2)), 12, draft=True
    ),
    "no fix": comments.render_no_fix(RUN, NO),
    "planned": replies.render_plan(
        RUN,
        Plan(files=("shop/till.py", "shop/cart.py"), script=TestScript(text=LONG),
             script_suffix=".py", run=SAID, ceiling=4),
    ),
    "used": candidates.render_swap(replace(RUN, mode=Mode.USE, candidate=2), 12, CHOSEN),
    "not judged": comments.render_not_judged(RUN),
    "asked back: our own": refusals.render_refusal(
        RUN, ExistingWork(ours=(PULL,)), "capuchin"
    ),
    "asked back": refusals.render_refusal(
        RUN, ExistingWork(locked=True, assignees=("bob",), pulls=(PULL,), branches=("7-mend",)),
        "capuchin",
    ),
    "withdrawn: trust": refusals.render_refusal(BEGUN, Stranger(("write",)), "capuchin"),
    "withdrawn: disabled": refusals.render_refusal(BEGUN, "switched off", "capuchin"),
    **{f"stopped: {why}": stopped(why) for why in StopReason},
    "stop came late": comments.render_late_stop(RUN, 12),
    **{f"failed: {failure}":
       comments.render_failed(replace(RUN, failure=failure, facts=FAILED))
       for failure in Failure},
    "unpublished": comments.render_unpublished(
        replace(
            RUN, failure=Failure.PUBLISH_REFUSED,
            facts=FailureFacts(
                problem="branch name", words="error: GH013: see @acme\n- A rule of `main`."
            ),
        ),
        CHOSEN, "capuchin",
    ),
    **{f"unpublished: {problem}": publish_reason(
        FailureFacts(problem=problem, words="GH013: a rule."))
       for problem in get_args(PublishProblem)},
}  # fmt: skip

NO_PULLS = stats.PullCounts()
STATS = stats.Stats(
    period="in the last 90 days",
    since=datetime(2026, 1, 2, tzinfo=UTC),
    begins=datetime(2025, 11, 5, tzinfo=UTC),
    runs={RunStatus.OPENED_PULL_REQUEST: 5, RunStatus.NO_FIX: 3, RunStatus.FAILED: 1,
          RunStatus.STOPPED: 1, RunStatus.REFUSED: 1, RunStatus.NEEDS_CONFIRMATION: 1},
    others=0,
    dollars=12.5,
    pulls=stats.PullCounts(open=1, merged=3, closed=1, recorded=3, first_choice=3, looked_at=3),
)  # fmt: skip
BIG = STATS._replace(
    begins=datetime(2026, 2, 3, tzinfo=UTC),
    others=4,
    pulls=stats.PullCounts(
        open=2, merged=40, closed=10, reverted=4, recorded=38, first_choice=35, swapped=3,
        looked_at=20, by_people=6, not_all_pulls=True, not_all_commits=True,
    ),
)  # fmt: skip

ANSWERS: Bodies = {
    "help": replies.help_text(
        "capuchin",
        "acme-helper",
        [(f"{name} {verb.words}".strip(), verb.summary) for name, verb in VERBS.items()],
        "capuchin",
    ),
    "unknown": replies.no_such_verb("capuchin", "stauts", "status"),
    "not here": Reply.WRONG_PLACE.format(verb="`judge`"),
    "fix or retry while it works": Reply.WAITS.format(name="capuchin"),
    "fix on another's pull request": Reply.FOREIGN_PULL,
    "fix on what is a person's by now": Reply.HANDED_OVER,
    "fix where people answer reviews": Reply.NOT_FOLLOWED,
    "stop: nothing runs": Reply.NOTHING_TO_STOP,
    "status: no run": Reply.NO_RUN.format(name="capuchin"),
    "said too late": Reply.TOO_LATE_TO_HEAR.format(name="capuchin"),
    "in mid-line": Reply.IN_MID_LINE.format(name="capuchin", verb="stop"),
    "two commands in one comment": Reply.OTHERS_LEFT.format(verbs="`retry` and `use`"),
    "a mention": Reply.MENTION.format(name="capuchin"),
    "more: no samples": Reply.NO_SAMPLES.format(name="capuchin"),
    "more: too many": Reply.HOW_MANY_SAMPLES.format(name="capuchin", left=90),
    "budget: nothing runs": Reply.NOTHING_TO_RAISE.format(name="capuchin"),
    "budget: which": Reply.WHICH_CEILING.format(name="capuchin", run=10, most=25),
    "budget: raised": Reply.CEILING_RAISED.format(dollars=15),
    "status: queued": replies.run_status(
        replace(RUN, status=RunStatus.QUEUED),
        QueuePosition(position=3, expected_seconds=(1200, 1800)),
    ),
    "status: working": replies.run_status(replace(RUN, status=RunStatus.RUNNING)),
    "status: over": replies.run_status(DONE),
    "explain": replies.run_explanation(
        DONE, CHOSEN, candidates.candidates_reply("capuchin", PullCandidates(CHOSEN, 12, 1))
    ),
    "explain: no fix": replies.run_explanation(
        replace(RUN, status=RunStatus.NO_FIX), NO,
        candidates.candidates_reply("capuchin", PullCandidates(CHOSEN, 12, 2)),
    ),
    "explain: failed": replies.run_explanation(
        replace(RUN, status=RunStatus.FAILED, failure=Failure.MODEL_UNAVAILABLE), None
    ),
    "config": settings_file.render_config(effective("samples: 3", "draft: true")),
    "stats": stats.render_stats(STATS),
    "stats: the records do not reach": stats.render_stats(BIG),
    "stats: nothing": stats.render_stats(
        STATS._replace(
            period="in the last 24 hours",
            begins=None,
            runs={},
            others=0,
            dollars=0.0,
            pulls=NO_PULLS,
        )
    ),
    "stats: what days": Reply.HOW_MANY_DAYS.format(name="capuchin", most=365),
    "config: no file": settings_file.render_config(effective("", "")),
    "config propose: done": Reply.SETTINGS_PROPOSED.format(number=12),
    "config propose: there is one": settings_file.file_exists(CONFIG_PATHS[0]),
    "config propose: no branch": Reply.NO_COMMITS,
    "config propose: refused": settings_file.proposal_refused(
        FailureFacts(
            problem="branch name", words="Branch name must match a given regex pattern: bots/.*"
        ),
        "version: 1\n",
    ),
    "config: invalid": replies.invalid_config(
        LayerProblem(".github/capuchin.yml", ConfigProblem(line=3, column=1, message="Is it?"))
    ),
    "use: which": candidates.candidates_reply("capuchin", PullCandidates(CHOSEN, 12, 1)),
    "use: which, after a review": candidates.candidates_reply(
        "capuchin", PullCandidates(CHOSEN, 12, None)
    ),
    "use: nothing": Reply.NOTHING_TO_USE,
    "use: no longer kept": Reply.EDITS_EXPIRED,
    "judge: which": Reply.WHICH_PULLS.format(name="capuchin", most=20),
    "judge: the issue": Reply.JUDGE_ISSUE.format(name="capuchin", issue=7),
    "use: closed": Reply.PULL_CLOSED.format(number=12),
    "use: merged": Reply.PULL_MERGED.format(number=12),
}  # fmt: skip

REFUSALS: Bodies = {
    **{name: refusals.refusal_reply(Login("mallory"), Stranger((trust,)))
       for name, trust in (("write", "write"), ("triage", "triage"), ("named", "carol"))},
    "quota": refusals.refusal_reply(Login("alice"), QuotaLimit(20)),
    "quota of a reviewer": refusals.refusal_reply(Login("alice"), QuotaLimit(20), deferred=True),
    "the day's ceiling, repository": Note.PAUSED.format(whose="of this repository"),
}  # fmt: skip

TENDED: Bodies = {
    "answered": followup.review_answer(
        [("alice", "It sums now. Thanks @all.")], CommitSha("abc1234")
    ),
    "answered, nothing changed": followup.review_answer(
        [("alice", "It is meant so.")], CommitSha("")
    ),
    "answered, several people": followup.review_answer(
        [("alice", "Renamed."), ("carol", "It stays.")], CommitSha("abc1234")
    ) + followup.outsiders_note(2),
    "not managed": Note.TRIED.format(why=": the model declined to answer"),
    "out of money": Note.OUT_OF_MONEY.format(name="capuchin"),
    "handed over": Note.HANDED_OVER,
    "ready without other checks": Note.NO_CHECKS,
    "rebased": Note.REBASED.format(head="abc1234"),
    "conflict": Note.CONFLICT.format(branch="`main`"),
    "closed for a new one": Note.REPLACED.format(new=34),
    "closed with its issue": Note.ISSUE_CLOSED.format(issue=7),
    "retired": Note.STALE.format(days="30 days"),
    "stopped by a label": followup.stop_note(
        replace(
            RUN,
            stop=Stop(by=Login("alice"), why=StopReason.DISABLED, label="capuchin:disabled"),
            dollars=0.25,
        ),
    ),
    "stopped": followup.stop_note(
        replace(RUN, stop=Stop(by=Login("alice"), why=StopReason.COMMAND), dollars=0.25),
    ),
    "failed": followup.failure_note(Failure.MODEL_REFUSED, NO_FACTS),
}  # fmt: skip

NOT_RUN = replace(FAILS, exit_code=4)
FOUND = Verification(path="tests/test_total.py", command=("python", "-m", "pytest"),
                     before=(FAILS, FAILS), after=(PASSES, PASSES))  # fmt: skip


def check(found: Verification) -> str:
    parts = [
        followup.check_title(found),
        followup.check_summary(found, CommitSha("a" * 40), "main"),
    ]
    return "\n\n".join([*parts, followup.check_text(found)])


CHECKS: Bodies = {
    "running": "\n\n".join(followup.describe_checking("tests/test_total.py", 3)),
    "shown": check(FOUND),
    "flaky": check(replace(FOUND, after=(PASSES, BREAKS))),
    "passes without": check(replace(FOUND, before=(PASSES, PASSES))),
    "fails with": check(replace(FOUND, after=(FAILS, FAILS))),
    "no verdict": check(replace(FOUND, after=(NOT_RUN, NOT_RUN))),
    "clash": "\n\n".join(followup.describe_conflict("main")),
    "no test": "\n\n".join(followup.NO_TEST),
    "not run": "\n\n".join(followup.INCOMPLETE),
    "settings: valid": f"{settings_file.check_title([0])}\n\n"
    + settings_file.check_summary({".github/capuchin.yml": []}),
    "settings: a mistake": f"{settings_file.check_title([1])}\n\n"
    + settings_file.check_summary(
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
    found = {name: phone_readability.find_problems(text) for name, text in GROUPS[group].items()}
    assert {name: some for name, some in found.items() if some} == {}


def test_the_rule_for_phones_notices() -> None:
    wide = "| a column of some words | another one of them | and one more |\n|---|---|---|"
    assert phone_readability.find_problems(wide) == [f"a wide table: {wide.splitlines()[0]}"]
    assert (
        phone_readability.find_problems(f"<details>\n<summary>x</summary>\n\n{wide}\n\n</details>")
        == []
    )
    assert phone_readability.find_problems(f"```text\n{'x' * 50}\n```") == [
        f"a wide line of code: {'x' * 50}"
    ]
    assert phone_readability.find_problems("```text\n" + "x\n" * 20 + "```") != []
    assert phone_readability.find_problems("word " * 200) != []


INNER = {
    "status_marker", "pull_marker", "find_run", "refusal_marker", "render_status",
    "failure_reason", "no_fix_reason", "list_candidates",
    "omissions_note", "waiting_sentence", "render_verdict",
    "explanation_sections", "evidence_sections", "models_note", "render_cost", "model_name",
    "price_notes", "render_checklist", "describe_counts", "measure_stage", "turn_words",
    "start_words", "describe_wait", "tell_spent",
    # These appear in a terminal, an editor or the README.
    "render_config_lines",
    # Those with tests of their own.
    "render_file", "fill_template",
}  # fmt: skip
"""Functions whose results are only parts of other texts."""


@pytest.mark.parametrize(
    "module",
    [comments, refusals, replies, candidates, followup, pull_request, settings_file, stats],
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
