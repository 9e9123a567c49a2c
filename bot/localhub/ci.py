"""Simulates CI on a pull request: check runs, statuses, and the re-run buttons of checks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from bot.localhub import webhook_payloads
from bot.localhub.actions import checks
from bot.localhub.json.gitdata import commit
from bot.localhub.state import CheckRun, CommitStatus, Pull, Repo

if TYPE_CHECKING:
    from bot.localhub.hub import LocalHub

StatusState = Literal["error", "failure", "pending", "success"]


async def report_check(
    hub: LocalHub, pull: Pull, conclusion: str | None, *, name: str = "tests", **extra: object
) -> CheckRun:
    """Report another App's only check run on the pull request's head; no conclusion: it runs."""
    status = "completed" if conclusion else "in_progress"
    fields = {"name": name, "status": status, **extra}
    if conclusion:
        fields["conclusion"] = conclusion
    run = checks.create_foreign(hub, pull.repo, pull.head_sha, "ci", fields, hub.add_user("ci"))
    await hub.wait_until_delivered()
    return run


async def report_status(
    hub: LocalHub,
    pull: Pull,
    state: StatusState,
    *,
    context: str = "ci/tests",
    description: str | None = None,
) -> CommitStatus:
    """Report a commit status on the pull request's head, like a CI without check runs."""
    repo = pull.repo
    by = hub.add_user("ci")
    one = CommitStatus(hub.next_id(), pull.head_sha, context, state, description, by)
    repo.statuses.append(one)
    (head,) = await asyncio.to_thread(repo.git.read_commits, [one.sha])
    webhook_payloads.send_status_event(hub, repo, one, commit(hub.url, repo, head, by))
    await hub.wait_until_delivered()
    return one


async def rerun(hub: LocalHub, repo: Repo, run: CheckRun, by: str) -> None:
    """Press the re-run button of a check."""
    webhook_payloads.send_check_event(hub, repo, run, "rerequested", hub.add_user(by))
    await hub.wait_until_delivered()


async def rerun_all(hub: LocalHub, repo: Repo, run: CheckRun, by: str) -> None:
    """Press the button that re-runs all checks of the App of `run`."""
    webhook_payloads.send_suite_event(hub, repo, run.suite, "rerequested", hub.add_user(by))
    await hub.wait_until_delivered()
