"""A model that is away, full, or talks nonsense: what the people of the issue get to see."""

from collections.abc import Generator
from typing import Final

import pytest
import time_machine

from bot.data.failure import Failure
from bot.data.run import Run, RunStatus, now
from bot.queue.attempt import MAX_FRUITLESS_STARTS
from capuchin_demo.recorded.recording import RecordedAnswer
from pipeline.generation.editing import EditingState
from pipeline.generation.scripts import TestingState
from pipeline.state import Phase, ReplyKind
from tests.e2e import shop
from tests.e2e.harness import BotHarness, StartBot

TEN_MINUTES = 600.0
QUIET = "<script>\nprint('nothing is wrong')\n</script>"
NOWHERE = shop.edit("    return a + b", before="    return a * b")


@pytest.fixture
def clock() -> "Generator[TravellingClock]":
    with time_machine.travel(now(), tick=True) as traveller:
        yield TravellingClock(traveller)


async def test_a_model_that_is_overloaded_for_ten_minutes(
    start_recorded_bot: StartBot, clock: "TravellingClock"
) -> None:
    away = RecordedAnswer(call="editing", status=529)
    async with start_recorded_bot(shop.answers(away)) as bot:
        repo = bot.add_repo(files=configured("samples: 2\n"))
        issue = await bot.open_issue(repo)
        asked_for = await bot.run_of(issue)
        async with bot.working(settle=False, model_waits=()):
            stood = await sit_out(bot, asked_for, clock, Failure.MODEL_UNAVAILABLE, TEN_MINUTES)
            (comment,) = issue.comments
            assert "waiting for the language model" in comment.body
            assert "at list prices" in comment.body
            before = len(bot.llm.requests)
            bot.llm.recording = shop.answers()
            clock.ahead(60)
            run = await bot.wait_for_end(asked_for)
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        assert len(stood) > MAX_FRUITLESS_STARTS
        asked_again = {asked.call.partition("/")[0] for asked in bot.llm.requests[before:]}
        assert asked_again.isdisjoint({"ranking", "approaches", "testing"})
        assert "I opened #2" in comment.body
        assert (len(issue.comments), len(repo.pulls), issue.labels) == (1, 1, [])


async def test_a_context_too_long_at_the_third_turn(start_recorded_bot: StartBot) -> None:
    """Each machine ends with the best that it had by then."""
    full = (
        RecordedAnswer(call="testing", turn=0, reply=QUIET),
        RecordedAnswer(call="testing", turn=1, reply=shop.SCRIPT),
        RecordedAnswer(
            call="testing", turn=2, status=400, error="prompt is too long: 200001 tokens"
        ),
        RecordedAnswer(call="editing", turn=0, reply=shop.WRONG),
        RecordedAnswer(call="editing", turn=1, reply=shop.RIGHT),
        RecordedAnswer(call="editing", turn=2, stop="context"),
    )
    async with start_recorded_bot(shop.answers(*full)) as bot:
        repo = bot.add_repo(files=configured("samples: 1\n"))
        issue = await bot.open_issue(repo)
        run = await bot.solve(issue)
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        store = bot.store_of(run)
        test = await store.load("testing/0", TestingState)
        edit = await store.load("editing/0", EditingState)
        assert test is not None
        assert edit is not None
        assert (test.phase, edit.phase) == (Phase.OUT_OF_CONTEXT, Phase.OUT_OF_CONTEXT)
        branch, _ = bot.only_pull_request(repo)
        assert "return a + b" in (repo.read_file(branch, "shop/till.py") or "")
        assert "I opened #2" in issue.comments[0].body


async def test_eight_malformed_replies(start_recorded_bot: StartBot) -> None:
    """Each is answered with what was wrong; then that machine is over, and the person is told."""
    nonsense = RecordedAnswer(call="testing", reply="Colourless green ideas sleep furiously.")
    async with start_recorded_bot(shop.answers(nonsense)) as bot:
        repo = bot.add_repo(files=configured("samples: 1\n"))
        issue = await bot.open_issue(repo)
        run = await bot.solve(issue)
        assert (run.status, run.no_fix) == (RunStatus.NO_FIX, "no reproduction")
        asked = [q for q in bot.llm.requests if q.call == "testing/0"]
        assert [q.turn for q in asked] == list(range(8))
        assert all("<script>" in q.last_user_message for q in asked[1:])
        (comment,) = issue.comments
        assert "at list prices" in comment.body
        assert (repo.list_branches(), repo.pulls, issue.labels) == (["main"], [], [])


async def test_a_patch_that_does_not_apply(start_recorded_bot: StartBot) -> None:
    """It is told what does not fit; an edit that never does is none, and costs no other."""
    never = RecordedAnswer(call="editing/0", reply=NOWHERE)
    at_first = RecordedAnswer(call="editing/1", turn=0, reply=NOWHERE)
    then = RecordedAnswer(call="editing/1", turn=1, reply=shop.RIGHT)
    async with start_recorded_bot(shop.answers(never, at_first, then)) as bot:
        repo = bot.add_repo()
        run = await bot.solve(await bot.open_issue(repo))
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        told = [
            q.last_user_message
            for q in bot.llm.requests
            if q.call.startswith("editing/") and q.turn == 1
        ]
        assert len(told) == 2
        assert all("shop/till.py" in words and "return a - b" in words for words in told)
        hopeless = await bot.store_of(run).load("editing/0", EditingState)
        assert hopeless is not None
        assert (hopeless.attempts, hopeless.patches) == ([ReplyKind.MALFORMED] * 8, [])
        branch, _ = bot.only_pull_request(repo)
        assert "return a + b" in (repo.read_file(branch, "shop/till.py") or "")


def configured(settings: str) -> dict[str, str]:
    return {**shop.FILES, ".github/capuchin.yml": f"version: 1\n{settings}"}


STEP_SECONDS: Final = 120.0
"""By how much a clock is moved at once, at least."""


class TravellingClock:
    """The time of day in this process, which the test moves instead of waiting."""

    def __init__(self, traveller: time_machine.Traveller) -> None:
        self._traveller = traveller
        self.moved = 0.0
        """Seconds."""

    def ahead(self, seconds: float) -> None:
        self._traveller.shift(seconds)
        self.moved += seconds


async def sit_out(
    bot: BotHarness, run: Run, clock: TravellingClock, reason: Failure, seconds: float
) -> list[Run]:
    """Let `seconds` pass while the run waits for `reason`: how it stood each time that it waited.

    At the end it waits still.
    """
    stood: list[Run] = []

    async def waits() -> bool:
        found = await bot.runs.get(run.id)
        assert found is not None
        assert not found.status.final, found
        if found.not_before is None or found.not_before <= now():
            return False
        assert found.waiting_for is reason, found
        stood.append(found)
        return True

    while True:
        await bot.until(waits)
        if clock.moved >= seconds:
            return stood
        assert stood[-1].not_before is not None
        clock.ahead(max(STEP_SECONDS, (stood[-1].not_before - now()).total_seconds()))
