"""Whether a run may begin: requester, issue, repository, daily quotas; one polite refusal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from bot.admission.repository_settings import read_config
from bot.admission.trust import is_trusted
from bot.comments import replies, status
from bot.data.github_facts import ExistingWork, IssueFacts, LinkedPull, RepositoryFacts
from bot.data.run import Failure, Login, Mode, QuotaLimit, Run, RunStatus, now
from bot.errors import Forbidden, NotFound, RunFailed, RunRefused
from bot.git.commits import BRANCH_PREFIX
from bot.github.repository import Repository
from bot.repo_config.model import LayerProblem, Quota, RepoConfig
from bot.settings import Settings
from bot.storage.keys import DAY
from bot.storage.lease import Lease
from bot.storage.quota import Refusals
from bot.webhooks.labels import LabelSet


async def claim_quota(
    lease: Lease, run: Run, quota: Quota, settings: Settings
) -> QuotaLimit | None:
    """Count the run, once, and return None; or return the limit that forbids it. Days are UTC."""
    day = now().date().isoformat()
    installation = run.repo.installation
    limits = [
        QuotaLimit("person", _stricter(quota.person, settings.quota_person)),
        QuotaLimit("repository", _stricter(quota.repository, settings.quota_repository)),
        QuotaLimit("installation", settings.quota_installation),
    ]
    counted = [f"{installation}@{run.asked_by}", run.repo.full_name, str(installation)]
    ceilings = [limit.runs for limit in limits]
    reached = await lease.storage.quota.claim(run.id, day, counted, ceilings)
    return None if reached is None else limits[reached]


def _stricter(one: int, other: int) -> int:
    """The lower of two limits; 0 means no limit."""
    return min(one, other) if one and other else one or other


_REPEAT_AFTER: Final = timedelta(seconds=DAY)


async def refuse(
    refusals: Refusals, repo: Repository, issue: int, login: Login, text: str, *, request_id: str
) -> None:
    """Comment `text`, which holds the person's marker, unless they got a refusal today.

    `request_id` names the refused request. Of two requests at the same moment only the first is
    answered; calling again for that one, after a crash, changes nothing.

    Raises:
        GitHubError: the comment cannot be written.
    """
    if not await refusals.claim(repo.ref, login, request_id):
        return
    marker = replies.refusal_marker(login)
    try:
        await repo.issues.comment_once(issue, marker, text, since=now() - _REPEAT_AFTER)
    except (Forbidden, NotFound):  # locked or gone: refuse elsewhere instead
        await refusals.release(repo.ref, login)
        raise


CLOSING_WORDS: Final = r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+"
"""GitHub's keywords for a pull request that closes an issue, from its document "Linking a pull
request to an issue"."""
MAX_SHOWN: Final = 5


async def find_existing_work(
    repo: Repository, run: Run, issue: IssueFacts, assignee: str
) -> ExistingWork:
    """Assignees, linked pull requests, and branches; `assignee` is our own account."""
    me = repo.identity.login
    ours = {run.asked_by.casefold(), assignee.casefold(), me.casefold()}
    pulls = [
        pull
        async for pull in repo.issues.list_linked_pulls(run.issue)
        if pull.is_open and _is_fix_for(pull, run)
    ]
    heads = {pull.number for pull in pulls}
    branches = (
        () if heads else _branches_for_issue(run.issue, [b async for b in repo.list_branches()])
    )
    return ExistingWork(
        locked=issue.locked,
        assignees=tuple(who for who in issue.assignees if who.casefold() not in ours)[:MAX_SHOWN],
        pulls=tuple(pull for pull in pulls if pull.author != me)[:MAX_SHOWN],
        ours=tuple(pull for pull in pulls if pull.author == me)[:MAX_SHOWN],
        branches=branches[:MAX_SHOWN],
    )


def _is_fix_for(pull: LinkedPull, run: Run) -> bool:
    here = re.escape(run.repo.full_name)
    target = rf"(?:(?:{here})?#|https?://\S+/{here}/issues/){run.issue}\b"
    text = f"{pull.title}\n{pull.body or ''}"
    return pull.repository.lower() in ("", run.repo.full_name.lower()) and bool(
        re.search(CLOSING_WORDS + target, text, re.I)
    )


def _branches_for_issue(number: int, branches: Sequence[str]) -> tuple[str, ...]:
    """GitHub's own button makes `12-slug`; the other patterns are common habits."""
    word = re.compile(
        rf"(?:.*/)?(?:{number}-[a-z]|(?:issue|fix|bug|gh|hotfix)[-_/#]?{number}(?!\d))", re.I
    )
    return tuple(b for b in branches if word.match(b) and not b.startswith(BRANCH_PREFIX))


@dataclass(frozen=True)
class Admission:
    """What GitHub answered about a run that may begin."""

    facts: RepositoryFacts
    issue: IssueFacts
    config: RepoConfig


async def check_admission(
    repo: Repository, run: Run, lease: Lease, settings: Settings
) -> Admission:
    """Check that the run may begin, and post a refusal where one is due.

    Raises:
        RunRefused: the requester may not start runs, or the quota is used up; the repository opted
            out; the label is gone; somebody seems to work on the issue.
        RunFailed: repository or issue gone, issue closed, configuration invalid.
    """
    facts = await repo.get_facts()
    if facts is None:
        raise RunFailed(Failure.REPOSITORY_GONE)
    issue = await repo.issues.get(run.issue)
    if issue is None or issue.pull_request is not None:
        raise RunFailed(Failure.ISSUE_GONE)
    found = await load_repo_config(repo)
    trust = found.trust if isinstance(found, RepoConfig) else RepoConfig().trust
    if not await is_trusted(repo, run.asked_by, trust):
        raise await _refuse_untrusted(repo, run, lease, settings, trust)
    if issue.state != "open":
        raise RunFailed(Failure.ISSUE_CLOSED)
    if isinstance(found, RunFailed):
        raise found
    _check_switches(run, issue, found, LabelSet(settings.label).opt_out)
    if not is_announced(run):
        await _check_first_start(repo, run, lease, settings, issue, found)
    return Admission(facts, issue, found)


def _check_switches(run: Run, issue: IssueFacts, config: RepoConfig, opt_out: str) -> None:
    """Check the opt-outs of the repository and of the issue.

    Raises:
        RunRefused: one of them is set.
    """
    if not config.enabled:
        raise RunRefused(
            comment=status.render_withdrawn(run, "disabled") if is_announced(run) else ""
        )
    if issue.has_label(opt_out):
        raise RunRefused(comment=replies.render_opted_out(run, opt_out))


def is_announced(run: Run) -> bool:
    """Whether the run is visible to people: it has a comment, or began before."""
    return run.comment_id is not None or run.base_commit != ""


async def load_repo_config(repo: Repository) -> RepoConfig | RunFailed:
    """The repository's configuration, or the error to raise when it is invalid."""
    found = await read_config(repo)
    if isinstance(found, LayerProblem):
        source, problem = found
        detail = f"`{source}`, line {problem.line}: {problem.message}"
        return RunFailed(Failure.CONFIG_INVALID, detail)
    return found.config


async def _check_first_start(
    repo: Repository,
    run: Run,
    lease: Lease,
    settings: Settings,
    issue: IssueFacts,
    config: RepoConfig,
) -> None:
    """Check what only the first start must check, before the run is announced.

    Raises:
        RunRefused.
    """
    if run.label and not issue.has_label(run.label):  # the webhook of its removal is late or lost
        raise RunRefused(RunStatus.STOPPED)
    if run.mode is Mode.FIX and not run.confirmed:
        seen = await find_existing_work(repo, run, issue, settings.assignee)
        if seen:
            comment = replies.render_existing_work(run, seen, settings.app_name)
            raise RunRefused(RunStatus.NEEDS_CONFIRMATION, comment)
    limit = await claim_quota(lease, run, config.quota, settings)
    if limit is not None:
        text = replies.quota_refusal(run.asked_by, limit)
        await _refuse(repo, run, lease, settings.label, text)
        raise RunRefused


async def _refuse_untrusted(
    repo: Repository, run: Run, lease: Lease, settings: Settings, trust: tuple[str, ...]
) -> RunRefused:
    if is_announced(run):
        return RunRefused(comment=status.render_withdrawn(run, "trust"))
    await _refuse(repo, run, lease, settings.label, replies.refusal(run.asked_by, trust))
    return RunRefused()


async def _refuse(repo: Repository, run: Run, lease: Lease, label: str, text: str) -> None:
    try:
        await lease.require()
        await refuse(lease.storage.refusals, repo, run.issue, run.asked_by, text, request_id=run.id)
        await lease.require()
        await repo.issues.remove_label(run.issue, LabelSet(label).label_to_remove(run))
    except Forbidden:  # locked or archived: no comment is possible
        return
