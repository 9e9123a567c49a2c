"""`/capuchin use`, with a worker that dies after any of its effects: each is had once."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.localhub import Issue, LocalHub, Repo
from bot.runner.types import Job, OnProgress
from bot.solve_issue import SolveIssue
from bot.types import Mode, RunStatus
from pipeline.solve import OUTCOME_KEY, SolveResult
from sandbox.base import Execution, Sandbox
from sandbox.program import Program
from tests.e2e.single_run_harness import Decided, Office
from tests.support.data.publishing import PASSES, a_selection
from tests.support.hub import ref_of


class Passing:
    """A sandbox in which everything passes."""

    async def run(self, program: Program) -> Execution:
        assert program.argv[0] == "python", program
        return PASSES


class Open(Decided):
    @asynccontextmanager
    async def open_sandbox(
        self, job: Job, on_progress: OnProgress
    ) -> AsyncGenerator[tuple[str, Sandbox]]:
        self.jobs.append(job)
        on_progress("Preparing the environment.")
        yield "image", Passing()


@pytest.fixture
def office(hub: LocalHub, redis: Redis, redis_prefix: str, tmp_path: Path) -> Office:
    office = Office(hub, redis, redis_prefix, tmp_path / "data")
    office.runner = Open(office.settings)
    office.work = SolveIssue(office.settings, office.github, office.work.mirrors, office.runner)
    return office


async def opened(office: Office) -> tuple[Repo, Issue, str]:
    """A pull request of a run that is kept, and the run's id."""
    repo, issue = await office.prepare()
    lease = await office.lease(repo, issue)
    run = await office.do(lease)
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    store = office.storage.checkpoints(run.id)
    await store.save(OUTCOME_KEY, SolveResult(result=a_selection()))
    return repo, issue, run.id


async def use(office: Office, repo: Repo, issue: Issue, source: str, delivery: str) -> str:
    asked = await office.runs.create(
        ref_of(repo), issue.number, asked_by="alice", delivery=delivery, mode=Mode.USE,
        candidate=2, published_run=source,
    )  # fmt: skip
    return asked.run_id


EFFECTS = 7
"""One more where the comment's news come in time to be shown."""


@pytest.mark.parametrize("effect", range(1, EFFECTS + 1))
async def test_a_worker_that_dies_leaves_one_swap(office: Office, effect: int) -> None:
    repo, issue, source = await opened(office)
    (pull,) = repo.pulls
    before = pull.head_sha
    lease = await office.taken(await use(office, repo, issue, source, "use"))
    lease = await office.die_after(effect, lease)
    run = await office.do(lease)
    assert (run.status, run.pull_request) == (RunStatus.SWAPPED, pull.number)
    assert repo.read_file(pull.head_sha, "shop.py") == "def total(a, b):\n    return b + a\n"
    assert repo.read_file(pull.head_sha, "tests/test_total.py") is not None
    two = [commit.message.split("\n")[0] for commit in repo.git.log(pull.head_sha, without=before)]
    assert two == ["Make total() add", "Undo the edit, as @alice asked"]
    assert (len(repo.pulls), len(repo.list_branches())) == (1, 2)
    records = office.storage.pulls
    record = await records.get(ref_of(repo), pull.number)
    assert record is not None
    assert (record.head, record.pending_head) == (pull.head_sha, "")
    assert len([c for c in issue.comments if "holds edit 1 now" in c.body]) == 1


async def test_no_effect_is_left_out_above(office: Office) -> None:
    repo, issue, source = await opened(office)
    before = len(office.effects)
    await office.do(await office.taken(await use(office, repo, issue, source, "use")))
    assert len(office.effects) - before in (EFFECTS, EFFECTS + 1)
