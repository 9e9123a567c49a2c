"""Generated sequences of webhooks, deaths and sweeps, against the end that each must come to.

The seed says all of a sequence. `--sequences 200 --sequences-from 400` plays the seeds from 400 to
599; without that the first hundred. `make sequences` plays ten thousand, each day other ones.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

import pytest
from redis.asyncio import Redis

from bot.localhub import AppIdentity, LocalHub
from bot.types import RunStatus
from tests.e2e.sequences.history import History, Said
from tests.e2e.sequences.model import problems
from tests.e2e.sequences.plan import Act, Plan, plan, shrunk
from tests.e2e.sequences.play import Player, play
from tests.e2e.sequences.world import World
from tests.hub import SECRET
from tests.redis import RedisServer

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


def label(word: str = "", seconds: int = 1) -> Act:
    return Act("label", word=word, seconds=seconds)


def say(word: str, seconds: int = 1, issue: int = 0) -> Act:
    return Act("say", word=word, seconds=seconds, issue=issue)


TOLD: Final = Act("deliver", pick=-1)
"""The latest webhook arrives."""
LOST: Final = Act("lose", pick=-1)

FOUND: Final = {
    "a stop before the first start takes the label off": (label(), say("stop", seconds=2)),
    "a close that is told late does not drop what was asked for after it": (
        say("fix"),
        Act("close", seconds=30),
        say("fix", seconds=90),
    ),
    "a label that waits and is found by the sweep is one run": (
        label(),
        TOLD,
        Act("begin"),
        label(":auto", seconds=90),
        TOLD,
        Act("finish"),
        Act("sweep"),
    ),
    "another label off does not drop the label that waits": (
        label(),
        TOLD,
        label(":auto", seconds=5),
        TOLD,
        Act("unlabel", seconds=5),
        TOLD,
    ),
    "a label that the sweep finds during a run of another kind is not forgotten": (
        label(":dry-run"),
        TOLD,
        Act("begin"),
        label(":auto", seconds=30),
        LOST,
        Act("sweep", seconds=30),
    ),
    "what waits when all is stopped loses its label": (
        label(),
        TOLD,
        Act("begin"),
        label(":auto", seconds=2),
        TOLD,
        say("stop", seconds=2),
    ),
    "a stop that comes late does not end what was asked for after it": (
        say("stop"),
        say("fix", seconds=30),
        TOLD,
        Act("command"),
        Act("begin"),
        Act("deliver", pick=3),
        Act("command"),
    ),
    "a close before the first start takes the label off": (
        label(),
        TOLD,
        Act("close"),
        TOLD,
        Act("begin"),
        Act("reopen"),
    ),
    "the label that we take off ourselves stops nothing": (
        label(":dry-run", seconds=5),
        TOLD,
        Act("sweep", seconds=5),
        Act("die", pick=5, seconds=30),
    ),
    "a command whose webhook never came is found": (say("fix"), LOST, Act("sweep", seconds=90)),
    "a label that another run took off is answered by that one": (
        Act("sweep"),
        say("fix"),
        label(seconds=30),
        Act("deliver", pick=3),
        Act("assign", seconds=5),
        Act("command", seconds=30),
        Act("begin", seconds=90),
        TOLD,
    ),
    "the end of a dry run takes no label off that asks for a fix": (
        label(),
        say("plan", seconds=90),
        TOLD,
        Act("command"),
        Act("begin", seconds=5),
        TOLD,
    ),
    "a person's push before the worker is back makes no second pull request": (
        label(),
        TOLD,
        Act("die", pick=3),
        Act("push"),
    ),
    "a pull request whose worker died with its issue deleted is looked after": (
        say("fix"),
        TOLD,
        Act("command"),
        Act("die", pick=3),
        Act("delete issue"),
    ),
    "a label on a closed issue is not said to be off": (
        label(),
        Act("close"),
        Act("unlabel", seconds=5),
        label(":auto", seconds=5),
        TOLD,
        TOLD,
        Act("begin"),
    ),
    "a pull request whose worker died and that was stopped too late is looked after": (
        label(),
        TOLD,
        Act("die", pick=3),
        say("stop"),
        TOLD,
    ),
    "a late word of a label taken off stops nothing while GitHub is away": (
        label(),
        Act("unlabel", seconds=5),
        label(seconds=5),
        TOLD,
        Act("github is away"),
        TOLD,
        Act("begin"),
    ),
}
"""What the generated ones have found, cut down."""

AWAY: Final = Act("github is away")
LIMITED: Final = Act("github limits", pick=3)
LIMITED_TOO: Final = Act("github limits", pick=2)
"""The secondary limit."""
RIDDEN_OUT: Final = {
    "away before the run": (label(), TOLD, AWAY, Act("begin")),
    "away during the run": (label(), TOLD, Act("begin"), AWAY, Act("finish")),
    "away when a command comes": (say("fix"), TOLD, AWAY, Act("command")),
    "away when the sweep looks": (label(), LOST, AWAY, Act("sweep")),
    "limited during the run": (label(), TOLD, LIMITED, Act("begin"), Act("finish")),
    "limited too often during the run": (label(), TOLD, LIMITED_TOO, Act("begin"), Act("finish")),
    "limited when the sweep looks": (say("fix"), LOST, LIMITED_TOO, Act("sweep")),
    "limited when a command comes": (say("fix"), TOLD, LIMITED_TOO, Act("command")),
}
"""Ten minutes each."""


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
            f"#{other.number} still wears ['capuchin']",
            f"/plan by alice on #{other.number} was forgotten",
        ]


async def test_the_model_sees_a_bug_that_the_bot_rode_out(stage: Stage) -> None:
    async with stage.world() as world:
        await world.fresh(fixes=True)
        world.workshop.answer = ValueError("of a kind that nobody thought of")
        player = Player(world)
        await player.label(label())
        await player.rest()
        (found,) = await problems(world, player.history)
        assert "a bug" in found


async def test_a_plan_that_fails_is_cut_down_to_what_matters() -> None:
    async def fails(plan: Plan) -> bool:
        whats = [act.what for act in plan.acts]
        return "label" in whats and "deliver" in whats[whats.index("label") :]

    whole = [p for p in map(plan, range(20)) if await fails(p)][0]  # noqa: RUF015 - it awaits
    assert [act.what for act in (await shrunk(whole, fails)).acts] == ["label", "deliver"]
