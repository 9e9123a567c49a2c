"""What the CI does at a pull request, with checks or statuses, and the button beside a check."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from bot.localhub import webhook_payloads
from bot.localhub.actions import checks
from bot.localhub.json.gitdata import commit
from bot.localhub.state import CheckRun, CommitStatus, Pull, Repo

if TYPE_CHECKING:
    from bot.localhub.hub import LocalHub

State = Literal["error", "failure", "pending", "success"]


async def ci(
    hub: LocalHub, pull: Pull, conclusion: str | None, *, name: str = "tests", **asked: object
) -> CheckRun:
    """Another App's only check of the pull request's head; without a conclusion it runs."""
    status = "completed" if conclusion else "in_progress"
    fields = {"name": name, "status": status, **asked}
    if conclusion:
        fields["conclusion"] = conclusion
    run = checks.foreign(hub, pull.repo, pull.head_sha, "ci", fields, hub.add_user("ci"))
    await hub.settled()
    return run


async def report(
    hub: LocalHub, pull: Pull, state: State, *, context: str = "ci/tests", says: str | None = None
) -> CommitStatus:
    """A commit status of the pull request's head, by a CI that knows no checks."""
    repo = pull.repo
    by = hub.add_user("ci")
    one = CommitStatus(hub.next_id(), pull.head_sha, context, state, says, by)
    repo.statuses.append(one)
    (head,) = await asyncio.to_thread(repo.git.commits, [one.sha])
    webhook_payloads.about_status(hub, repo, one, commit(hub.url, repo, head, by))
    await hub.settled()
    return one


async def rerun(hub: LocalHub, repo: Repo, run: CheckRun, by: str) -> None:
    """The button beside a check."""
    webhook_payloads.about_check(hub, repo, run, "rerequested", hub.add_user(by))
    await hub.settled()


async def rerun_all(hub: LocalHub, repo: Repo, run: CheckRun, by: str) -> None:
    """The button beside all checks of one App: of that whose `run` is one."""
    webhook_payloads.about_suite(hub, repo, run.suite, "rerequested", hub.add_user(by))
    await hub.settled()
