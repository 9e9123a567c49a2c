"""What the repository's own checks say of a head, and the logs of those that fail."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

from bot.data.github_facts import CheckRunFacts, CheckSuiteFacts, StatusFacts
from bot.data.run import now
from bot.errors import Forbidden, NotFound
from bot.github.actions import ACTIONS_APP
from bot.github.repository import Repository
from pipeline.data.types import CommitSha
from prompts.text import shorten

MOST_LOGS: Final = 5
LOG_CHARACTERS: Final = 8_000
FAILED: Final = ("failure", "timed_out")

CHECKS_GRACE: Final = timedelta(hours=1)
"""A head without any check after this time gets none, and a suite without a check none either."""


class HeadChecks(NamedTuple):
    suites: Sequence[CheckSuiteFacts]
    runs: Sequence[CheckRunFacts]
    statuses: Sequence[StatusFacts]
    silent: Sequence[str] = ()
    """The names of those that are required and have not reported."""

    def without(self, ignored: Collection[str]) -> "HeadChecks":
        """Those that count; a suite whose checks are all `ignored` does not."""
        runs = [run for run in self.runs if run.name not in ignored]
        gone = {run.app for run in self.runs} - {run.app for run in runs}
        return HeadChecks(
            [suite for suite in self.suites if suite.app not in gone],
            runs,
            [status for status in self.statuses if status.context not in ignored],
        )

    def only(self, required: Collection[str]) -> "HeadChecks":
        """The `required` ones, those that have not reported too."""
        runs = [run for run in self.runs if run.name in required]
        statuses = [status for status in self.statuses if status.context in required]
        known = {*(run.name for run in runs), *(status.context for status in statuses)}
        return HeadChecks([], runs, statuses, sorted({*required} - known))

    def list_waiting(self) -> list[str]:
        """The names of what has not ended; a suite without a check ends by itself."""
        runs = [run.name for run in self.runs if run.status != "completed"]
        pending = [one.context for one in self.statuses if one.state == "pending"]
        return [*runs, *pending, *self.silent]

    def have_ended(self) -> bool:
        return not self._wait(now())

    def failing_names(self) -> list[str]:
        runs = [run.name for run in self.runs if run.conclusion in FAILED]
        return runs + [one.context for one in self.statuses if one.state in ("error", "failure")]

    def _wait(self, moment: datetime) -> bool:
        waits = not all(suite.has_ended(moment, grace=CHECKS_GRACE) for suite in self.suites)
        waits |= any(run.status != "completed" for run in self.runs)
        waits |= any(status.state == "pending" for status in self.statuses)
        return waits or bool(self.silent)

    def verdict(self, opened: datetime) -> Literal["green", "red", "unknown", "none"]:
        """`unknown` until every suite has ended, also those that are queued; `none` where there
        are no checks long after the pull request was `opened`."""
        moment = now()
        ended = [one.state for one in self.statuses if one.state != "pending"]
        # The runs are the latest of each name; a suite without any may have failed to start.
        empty = [suite for suite in self.suites if not suite.runs]
        ended += [one.conclusion for one in (*empty, *self.runs) if one.conclusion]
        if not set(ended) <= {"success", "neutral", "skipped"}:
            return "red"
        waits = self._wait(moment)
        if not ended and not waits:
            return "none" if moment - opened >= CHECKS_GRACE else "unknown"
        return "unknown" if waits else "green"


async def load_checks(
    repo: Repository, sha: CommitSha, ignored: Collection[str] = ()
) -> HeadChecks:
    """The checks and statuses of a commit that count and are not ours. Raises GitHubError."""
    slug = repo.identity.login.removesuffix("[bot]")
    return HeadChecks(
        await repo.checks.list_suites_by_others(sha, slug),
        await repo.checks.list_by_others(sha, slug),
        await repo.checks.list_statuses(sha),
    ).without(ignored)


async def read_failures(repo: Repository, checks: HeadChecks) -> tuple[str, ...]:
    """What failing checks and statuses say: output, annotations and the end of a job's log.

    Untrusted, and bounded. Raises GitHubError.
    """
    logs: list[str] = []
    for run in [run for run in checks.runs if run.conclusion in FAILED][:MOST_LOGS]:
        notes = [
            f"{note.path}:{note.start_line}: {note.message or ''}"
            for note in await repo.checks.list_annotations(run.id)
        ]
        parts = [run.name, run.title or "", run.summary or "", run.text or "", *notes]
        text = "\n".join(part for part in parts if part)[:LOG_CHARACTERS]
        logs.append(f"{text}\n{await _read_job(repo, run)}".rstrip())
    logs += [
        f"{status.context}: {status.description or status.state}"[:LOG_CHARACTERS]
        for status in checks.statuses
        if status.state in ("error", "failure")
    ][: MOST_LOGS - len(logs)]
    return tuple(logs)


async def _read_job(repo: Repository, run: CheckRunFacts) -> str:
    """The log of a GitHub Actions job, shortened; empty where we may not read it."""
    if run.app != ACTIONS_APP:
        return ""
    try:
        return shorten(await repo.actions.read_job_log(run.id), LOG_CHARACTERS)
    except (Forbidden, NotFound):  # it has expired, or the permission is not accepted
        return ""
