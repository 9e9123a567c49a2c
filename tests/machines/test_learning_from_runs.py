"""Rows train what is served: a run is made, and each row equals a request that it sent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipeline.bundle import write_bundle
from pipeline.data.code_places import Located
from pipeline.data.types import Issue, Patch, Usage
from pipeline.lab.dataset import BadData
from pipeline.lab.learning.attempts import read_attempts
from pipeline.lab.learning.filtering import CheckedIssue, Checker, check_attempt
from pipeline.lab.learning.records import Attempt, SolvedIssue
from pipeline.lab.learning.training_rows import outcome_prompt
from pipeline.localisation.process_reward import StepScore, render_judgement
from pipeline.models.base import ModelProfile, ModelRequest, Reply
from pipeline.models.metering import Meter
from pipeline.replay import load_question
from pipeline.selection.ties import ImplicitReward
from pipeline.store import DirStore
from sandbox.frozen import replace
from tests.machines.choosing import NO_LOOP, OTHER_GOOD_EDIT, SMALLEST, alike
from tests.support.data.diffs import diff_of
from tests.support.data.learning_rows import filtered
from tests.support.data.solver_shop import (
    ABSOLUTE_EDIT,
    APPROVE,
    BROKEN_SCRIPT,
    COMMON,
    FILES,
    GOOD_EDIT,
    ISSUE,
    TEST_FILE,
    WEAK_SCRIPT,
    WRONG_EDIT,
    Shop,
    edit,
    sample,
    script,
    simple,
)
from tests.support.fakes import Answer, ScriptedModel

NAME = "acme__shop-1"
TILL = FILES["shop/till.py"]
REFERENCE = diff_of(TILL, TILL.replace("-= price", "+= price"), "shop/till.py")
SOLVED = SolvedIssue(
    id=NAME,
    repository="acme/shop",
    title=ISSUE.title,
    body=ISSUE.body,
    reference=REFERENCE,
    source="pulls",
)
THOUGHT = "a private thought about {}"


@dataclass
class ThinkingModel(ScriptedModel):
    """Keeps every request, and thinks before each answer."""

    requests: list[tuple[ModelRequest, str]] = field(default_factory=list[tuple[ModelRequest, str]])

    async def complete(self, request: ModelRequest) -> Reply:
        reply = await super().complete(request)
        reply = replace(reply, thinking=THOUGHT.format(len(self.requests)))
        self.requests.append((request, reply.text))
        return reply


@dataclass
class KeptAnswers:
    """A process reward model that keeps the stage and the question of each answer it scores."""

    asked: list[tuple[str, tuple[str, str]]] = field(
        default_factory=list[tuple[str, tuple[str, str]]]
    )

    async def score(self, issue: Issue, found: Located) -> StepScore:
        stage = "localisation" if found.places else "understanding"
        self.asked.append((stage, render_judgement(issue, found)))
        return StepScore(probability=0.5)


async def run(shop: Shop, answers: Mapping[str, list[Answer]], **options: Any) -> ThinkingModel:
    model = ThinkingModel(answers)
    store = DirStore(shop.folder / "runs" / NAME / "run")
    solver = shop.solver(model, store=store, **options)
    await solver.solve(ISSUE)
    return model


async def collect(shop: Shop) -> tuple[Attempt, ...]:
    checker = Checker(shop.codebase, shop.sandbox, DirStore(shop.folder / "checks"))
    found: list[Attempt] = []
    async for attempt in read_attempts(shop.folder / "runs", {NAME: SOLVED}):
        checks = {attempt.source: await checker.execute(SOLVED, attempt)}
        found.append(CheckedIssue(attempts=checks).complete_attempt(attempt))
    return tuple(found)


async def test_each_row_of_the_policy_is_a_request_that_was_served(shop: Shop) -> None:
    model = await run(shop, simple("no block at all", ABSOLUTE_EDIT, GOOD_EDIT, APPROVE))
    (attempt,) = [
        one
        async for one in read_attempts(shop.folder / "runs", {NAME: replace(SOLVED, body="other")})
    ]
    served = {
        (request.system, tuple(request.messages), reply): number
        for number, (request, reply) in enumerate(model.requests)
    }
    assert [reply.stage for reply in attempt.replies] == (
        ["files"] + ["reproduction"] * 2 + ["edit"] * 3
    )
    for reply in attempt.replies:
        number = served[reply.system, reply.messages, reply.answer]
        assert reply.thinking == THOUGHT.format(number)
        assert "a private thought" not in "".join(one.text for one in reply.messages)


@pytest.mark.parametrize(
    ("files", "places", "learnt"),
    [
        (
            "shop/till.py: it adds",
            "shop/till.py:3-4: here",
            ["understanding"] * 2 + ["localisation"],
        ),
        ("shop/till.py: it adds", "shop/names.py:1: here", ["understanding"] * 2),
        ("shop/names.py", "shop/till.py:3-4: here", ["localisation"]),
    ],
)
async def test_a_search_is_learnt_where_its_own_answers_are_right(
    shop: Shop, files: str, places: str, learnt: list[str]
) -> None:
    answers: dict[str, list[Answer]] = {
        **simple(GOOD_EDIT, APPROVE),
        "understanding/0": ["<bash>\nls\n</bash>", f"<files>\n{files}\n</files>"],
        "localisation/0": [f"<places>\n{places}\n</places>"],
    }
    judge = KeptAnswers()
    model = await run(shop, answers, strategy="search", prm=judge)
    place = shop.folder / "runs" / NAME
    told = {"issue.json": ISSUE.model_dump_json().encode()}
    write_bundle(place / "run.tar.zst", place / "run", facts={}, extra=told)
    (attempt,) = [one async for one in read_attempts(shop.folder / "runs", {NAME: SOLVED})]
    served = [(request.system, tuple(request.messages), reply) for request, reply in model.requests]
    replies = [reply for reply in attempt.replies if reply.right is not None]
    assert [reply.stage for reply in replies] == ["understanding"] * 2 + ["localisation"]
    assert all((reply.system, reply.messages, reply.answer) in served for reply in replies)
    data, _ = filtered(shop.folder / "rows", [SOLVED], [attempt])
    searched = [row.stage for row in data.policy if row.stage in ("understanding", "localisation")]
    assert searched == learnt
    asked = [(question, "+" if stage in learnt else "-") for stage, question in judge.asked]
    rows = [
        (tuple(one.content for one in row.prompt), row.completion[0].content)
        for row in data.process
    ]
    assert rows[: len(asked)] == asked, "it learns the questions that it was asked"


async def test_the_four_checks_accept_a_right_run_by_executions(shop: Shop) -> None:
    await run(shop, simple(GOOD_EDIT, APPROVE))
    (attempt,) = await collect(shop)
    assert (attempt.red_before, attempt.green_on_reference, attempt.passes_script) == (True,) * 3
    checks = check_attempt(SOLVED, attempt)
    assert checks.files
    assert checks.places
    assert checks.accepted is (attempt.broken == ())
    data, report = filtered(shop.folder / "rows", [SOLVED], [replace(attempt, broken=())])
    assert (report.accepted, report.prefixes, report.leaks) == (1, 0, 0)
    assert [row.stage for row in data.policy] == ["files"] + ["reproduction"] * 2 + ["edit"] * 2
    assert data.policy[-1].completion[0].content.startswith("<think>\na private thought")


async def test_a_run_that_mends_its_script_is_judged_by_the_last_one(shop: Shop) -> None:
    """The two-sided debugging of CodeMonkeys, section 2.2."""
    mended = script("total([1]) == 1")
    answers = {**COMMON, **sample(0, GOOD_EDIT, mended, APPROVE, test=BROKEN_SCRIPT)}
    await run(shop, answers)
    (attempt,) = await collect(shop)
    assert "total([1]) == 1" in attempt.script
    assert (attempt.red_before, attempt.green_on_reference, attempt.passes_script) == (True,) * 3


async def test_of_a_wrong_edit_the_correct_prefix_is_kept(shop: Shop) -> None:
    await run(shop, simple(WRONG_EDIT, APPROVE))
    (attempt,) = await collect(shop)
    assert attempt.passes_script is False
    data, report = filtered(shop.folder / "rows", [SOLVED], [attempt])
    assert (report.accepted, report.prefixes) == (0, 1)
    assert [row.stage for row in data.policy] == ["files"] + ["reproduction"] * 2
    _, easy = filtered(shop.folder / "rows", [SOLVED], [attempt], easy=frozenset({NAME}))
    assert easy.rows["policy"] == {"train": 0, "test": 0}


async def test_a_script_that_stays_red_on_the_reference_is_rejected(shop: Shop) -> None:
    stubborn = WEAK_SCRIPT.replace("total([1, 2]) > 0", "False")
    await run(shop, {**simple(), **sample(0, GOOD_EDIT, APPROVE, test=stubborn)})
    (attempt,) = await collect(shop)
    checks = check_attempt(SOLVED, attempt)
    assert attempt.green_on_reference is False
    assert checks.reproduction is False
    assert not checks.accepted


@dataclass
class KeptQuestions:
    """A likelihood that keeps what it is asked."""

    profile: ModelProfile
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    async def first_token(
        self, system: str, question: str, *, call: str
    ) -> tuple[Mapping[str, float], Usage]:
        raise NotImplementedError

    async def answer(self, question: str, text: str, *, call: str) -> tuple[float, Usage]:
        self.asked.append((question, text))
        return 0.0, Usage()


async def test_the_outcome_rows_are_what_the_implicit_reward_asks(tmp_path: Path) -> None:
    meter = await Meter.open(DirStore(tmp_path), 1)
    model = KeptQuestions(ScriptedModel({}).profile)
    await ImplicitReward(model, model, meter).score(SOLVED.issue, REFERENCE)
    (prompt,) = outcome_prompt(SOLVED.issue)
    assert prompt.role == "user"
    assert model.asked == [(prompt.content, REFERENCE)] * 2


ASKS = """
<script>
import sys
from shop.till import total

try:
    total(None)
except TypeError:
    sys.exit(2)
</script>

<asked/>
"""
MENDS = edit(
    "    for price in prices:\n        result -= price",
    "    for price in prices or ():\n        result += price",
)


async def test_an_attempt_is_the_edit_and_the_summary_that_the_run_chose_by(shop: Shop) -> None:
    """As a formatter left it (0), and as one more sample mended it (3), which is proposed."""
    answers = alike(NO_LOOP, OTHER_GOOD_EDIT, SMALLEST)
    answers |= {"reproduction": [TEST_FILE + ASKS], "editing/3": [MENDS, APPROVE]}
    store = DirStore(shop.folder / "runs" / NAME / "run")
    formatted = diff_of(TILL, TILL.replace("-= price", "+=  price"), "shop/till.py")
    await store.save("formatted/0", Patch(diff=formatted))
    await run(shop, answers, samples=3, informed=0)
    question, _ = await load_question(store)
    found = [
        one async for one in read_attempts(shop.folder / "runs", {NAME: SOLVED}, {"": "merged"})
    ]
    assert [(one.diff, one.summary) for one in found] == [
        (one.patch.diff, one.summary) for one in question.candidates
    ]
    assert [one.resolved for one in found] == [None, None, None, True]
    assert found[0].diff == formatted
    assert "Its scripts on the unedited code: exit code 2. Its script ran" in found[3].summary
    assert "prices or ()" in found[3].replies[-2].answer


async def test_runs_of_no_collected_issue_are_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "runs/acme__shop-2/run").mkdir(parents=True)
    with pytest.raises(BadData):
        [one async for one in read_attempts(tmp_path / "runs", {NAME: SOLVED})]
