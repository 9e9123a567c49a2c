"""Work that is under way is not begun a second time."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pipeline.concurrency import gather_all
from pipeline.languages.test_command import TestCommand
from pipeline.regression.runner import TestRunner
from pipeline.store import DirStore, ScopedStore, Store, hold_key, load_or_run
from sandbox.frozen import Frozen
from sandbox.program import Execution, Program
from tests.support.sandboxes import WithoutCommands


class Note(Frozen):
    text: str


@dataclass
class Work:
    """Ends when it is let go; counts how often it was begun."""

    begun: int = 0
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    fails: int = 0

    async def __call__(self) -> Note:
        self.begun += 1
        number = self.begun
        await self.may_end.wait()
        if number <= self.fails:
            raise LookupError(number)
        return Note(text=str(number))


class CountingSandbox(WithoutCommands):
    runs = 0

    async def run(self, program: Program) -> Execution:
        self.runs += 1
        await asyncio.sleep(0)
        return Execution(exit_code=0, output="", seconds=0)


async def begin(store: Store, key: str, work: Work) -> asyncio.Task[Note]:
    task = asyncio.create_task(load_or_run(store, key, Note, work))
    while not work.begun:
        await asyncio.sleep(0)
    return task


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return DirStore(tmp_path)


async def test_two_who_want_the_same_at_once_have_it_done_once(store: Store) -> None:
    work = Work()
    first = await begin(store, "votes/a", work)
    others = [asyncio.create_task(load_or_run(store, "votes/a", Note, work)) for _ in range(3)]
    await asyncio.sleep(0)
    work.may_end.set()
    assert {(await task).text for task in [first, *others]} == {"1"}
    assert work.begun == 1


async def test_who_waits_does_the_work_when_the_first_fails(store: Store) -> None:
    work = Work(fails=1)
    first = await begin(store, "votes/a", work)
    other = asyncio.create_task(load_or_run(store, "votes/a", Note, work))
    await asyncio.sleep(0)
    work.may_end.set()
    with pytest.raises(LookupError):
        await first
    assert await other == Note(text="2")


async def test_who_waits_does_the_work_when_the_first_is_cancelled(store: Store) -> None:
    work = Work()
    first = await begin(store, "votes/a", work)
    other = asyncio.create_task(load_or_run(store, "votes/a", Note, work))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    work.may_end.set()
    assert await other == Note(text="2")


async def test_who_stops_waiting_leaves_the_key_to_the_others(store: Store) -> None:
    work = Work()
    first = await begin(store, "votes/a", work)
    gone, other = (asyncio.create_task(load_or_run(store, "votes/a", Note, work)) for _ in "ab")
    await asyncio.sleep(0)
    gone.cancel()
    work.may_end.set()
    assert (await first, await other) == (Note(text="1"), Note(text="1"))
    assert gone.cancelled()


async def test_other_keys_and_other_stores_wait_for_nobody(store: Store) -> None:
    other = Work()
    other.may_end.set()
    async with hold_key(store, "votes/a"):
        assert (await load_or_run(store, "votes/b", Note, other)).text == "1"
        elsewhere = ScopedStore(store, "other")
        assert (await load_or_run(elsewhere, "votes/a", Note, other)).text == "2"


async def test_tests_that_two_want_at_once_run_once(store: Store) -> None:
    command = TestCommand(argv=("make", "test"), kind="other", source="configuration")
    sandbox = CountingSandbox()
    runner = TestRunner(command, sandbox=sandbox, store=store, seconds=9)
    runs = await gather_all(runner.run("a diff") for _ in range(3))
    assert runs[0] == runs[1] == runs[2]
    assert sandbox.runs == 1
