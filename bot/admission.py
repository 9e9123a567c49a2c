"""Whether a run may begin: who asked, whether the issue is open, what the repository says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from bot import comments
from bot.github.errors import Forbidden
from bot.github.facts import IssueFacts, RepositoryFacts
from bot.github.repository import Repository
from bot.lease import Lease
from bot.repo_config import CANDIDATES, ConfigProblem, RepoConfig, parse
from bot.trouble import Ended
from bot.types import Failure, Run, now

MAY_ASK = frozenset({"admin", "maintain", "write"})
REFUSAL_PAUSE = timedelta(days=1)
"""One refusal a day and person: a label put on again and again makes no thread."""


class Refused(Exception):
    """The run ends without a word, or with a polite one that has been said."""


@dataclass(frozen=True)
class Admitted:
    facts: RepositoryFacts
    issue: IssueFacts
    config: RepoConfig


async def admitted(repo: Repository, run: Run, lease: Lease, label: str) -> Admitted:
    """What the run works with.

    Raises:
        Refused: who asked may not, or the repository has switched us off.
        Ended: repository or issue gone, issue closed, configuration invalid.
    """
    facts = await repo.facts()
    if facts is None:
        raise Ended(Failure.REPOSITORY_GONE)
    issue = await repo.issues.get(run.issue)
    if issue is None or issue.pull_request is not None:
        raise Ended(Failure.ISSUE_GONE)
    if await repo.permission(run.asked_by) not in MAY_ASK:
        await _refuse(repo, run, lease, label)
        raise Refused
    if issue.state != "open":
        raise Ended(Failure.ISSUE_CLOSED)
    config = await _config(repo)
    if not config.enabled:
        raise Refused
    return Admitted(facts, issue, config)


async def _refuse(repo: Repository, run: Run, lease: Lease, label: str) -> None:
    marker = comments.refusal_marker(run.asked_by)
    since = now() - REFUSAL_PAUSE
    text = comments.refused(run.asked_by)
    try:
        await lease.require()
        await repo.issues.comment_once(run.issue, marker, text, since=since)
        await lease.require()
        await repo.issues.remove_label(run.issue, label)
    except Forbidden:  # locked or archived: nobody can be told there
        return


async def _config(repo: Repository) -> RepoConfig:
    for path in CANDIDATES:
        text = await repo.file_text(*path.split("/"))
        if text is None:
            continue
        found = parse(text)
        if isinstance(found, ConfigProblem):
            raise Ended(Failure.CONFIG_INVALID, f"`{path}`, line {found.line}: {found.message}")
        return found
    return RepoConfig()
