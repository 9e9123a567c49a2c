"""What another App, such as the CI, does at a pull request, and the button beside a check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.localhub import events
from bot.localhub.actions import checks
from bot.localhub.state import CheckRun, Pull, Repo

if TYPE_CHECKING:
    from bot.localhub.hub import LocalHub


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


async def rerun(hub: LocalHub, repo: Repo, run: CheckRun, by: str) -> None:
    """The button beside a check."""
    events.about_check(hub, repo, run, "rerequested", hub.add_user(by))
    await hub.settled()


async def rerun_all(hub: LocalHub, repo: Repo, run: CheckRun, by: str) -> None:
    """The button beside all checks of one App: of that whose `run` is one."""
    events.about_suite(hub, repo, run.suite, "rerequested", hub.add_user(by))
    await hub.settled()
