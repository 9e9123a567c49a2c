"""Generated sequences of webhooks, deaths and sweeps, against the end that each must come to.

The seed says all of a sequence. `--sequences 200 --sequences-from 400` plays the seeds from 400 to
599; without that the first hundred, always the same: another one could fail a change that has
nothing to do with it. `make sequences` plays ten thousand, each day other ones.
"""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

import pytest
from redis.asyncio import Redis

from bot.data.run import RunStatus
from capuchin_demo.hub.state import Issue
from capuchin_demo.hub.tokens import AppIdentity
from tests.e2e.sequences.invariants import problems
from tests.e2e.sequences.people import History, Said
from tests.e2e.sequences.plan import Act, Plan, plan, shrunk
from tests.e2e.sequences.player import Player, play
from tests.e2e.sequences.regressions import FOUND, LOST, RIDDEN_OUT, TOLD, label, say
from tests.e2e.sequences.simulation import World
from tests.support.github.hub import LocalHub
from tests.support.hub import SECRET
from tests.support.redis import RedisServer

TOGETHER: Final = 50
"""Sequences that one world sees, one after the other: each has issues of its own."""


class Stage:
    """Makes worlds."""

    def __init__(self, redis: Redis, url: str, app: AppIdentity, root: Path) -> None:
        self._redis = redis
        self._url = url
        self._app = app
        self._root = root
        self._worlds = 0

    def world(self) -> AbstractAsyncContextManager[World]:
        self._worlds += 1
        folder = self._root / str(self._worlds)
        hub = LocalHub(folder / "hub", SECRET, self._app)
        return World.up(hub, self._redis, self._url, folder / "data")

    async def played(self, *plans: Plan) -> list[list[str]]:
        """The problems of each plan, in a new world."""
        async with self.world() as world:
            return [await play(world, each) for each in plans]

    async def fails(self, plan: Plan) -> bool:
        return bool((await self.played(plan))[0])


@pytest.fixture
def stage(
    redis: Redis, redis_server: RedisServer, app_identity: AppIdentity, tmp_path: Path
) -> Stage:
    return Stage(redis, redis_server.url, app_identity, tmp_path)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seeds" in metafunc.fixturenames:
        options = metafunc.config.option
        first, last = options.sequences_from, options.sequences_from + options.sequences
        starts = range(first, last, TOGETHER)
        metafunc.parametrize("seeds", [range(s, min(s + TOGETHER, last)) for s in starts], ids=str)


async def test_nothing_is_done_twice_and_nothing_is_forgotten(stage: Stage, seeds: range) -> None:
    plans = [plan(seed) for seed in seeds]
    for each, found in zip(plans, await stage.played(*plans), strict=True):
        if not found:
            continue
        alone = await stage.fails(each)
        short = await shrunk(each, stage.fails) if alone else each
        pytest.fail(f"{found}\n{short}" + ("" if alone else "\n(only after those before it)"))


@pytest.mark.parametrize("name", FOUND)
@pytest.mark.parametrize("fixes", [True, False])
async def test_what_was_found_stays_mended(stage: Stage, name: str, fixes: bool) -> None:
    assert await stage.played(Plan(0, fixes, FOUND[name])) == [[]]


@pytest.mark.parametrize("name", RIDDEN_OUT)
async def test_ten_minutes_without_github_are_ridden_out(stage: Stage, name: str) -> None:
    async with stage.world() as world:
        assert await play(world, Plan(0, True, RIDDEN_OUT[name])) == []
        assert [run.status for run in await world.ended()] == [RunStatus.OPENED_PULL_REQUEST]


async def test_the_model_sees_what_is_done_twice_and_what_is_forgotten(stage: Stage) -> None:
    async with stage.world() as world:
        assert await play(world, Plan(0, True, (label(), TOLD, say("help", issue=1)))) == []
        (issue, other, _), history = world.issues, History()
        told = next(c for c in issue.comments if c.author is world.hub.bot)
        world.hub.users["capuchin[bot]"] = world.hub.bot
        await world.hub.comment(issue, told.body, world.hub.bot.login)
        await world.hub.add_label(other, "capuchin", "alice")
        asked = await world.hub.comment(other, "/capuchin plan", "alice")
        history.said.append(Said(other, asked, "plan", "alice", asked.created_at))
        (run,) = await world.ended()
        assert await problems(world, history) == [
            "1 runs that nobody asked for",
            f"2 comments capuchin:status run={run.id} on #{issue.number}",
            f"#{other.number} still has the label ['capuchin']",
            f"/plan by alice on #{other.number} was forgotten",
        ]


async def test_the_model_sees_a_bug_that_the_bot_rode_out(stage: Stage) -> None:
    async with stage.world() as world:
        await world.fresh(fixes=True)
        world.runner.answer = ValueError("of a kind that nobody thought of")
        player = Player(world)
        await player.label(label())
        await player.rest()
        (found,) = await problems(world, player.history)
        assert "a bug" in found


async def test_the_model_goes_by_the_clock_of_github(stage: Stage) -> None:
    async with stage.world() as world:
        add_label = world.hub.add_label

        async def slow(issue: Issue, name: str, by: str) -> None:
            await add_label(issue, name, by)
            world.passes(1)

        world.hub.add_label = slow
        assert await play(world, Plan(0, True, (label(), LOST, Act("sweep")))) == []


async def test_a_plan_that_fails_is_cut_down_to_what_matters() -> None:
    async def fails(plan: Plan) -> bool:
        whats = [act.what for act in plan.acts]
        return "label" in whats and "deliver" in whats[whats.index("label") :]

    whole = [p for p in map(plan, range(20)) if await fails(p)][0]  # noqa: RUF015 - it awaits
    assert [act.what for act in (await shrunk(whole, fails)).acts] == ["label", "deliver"]
