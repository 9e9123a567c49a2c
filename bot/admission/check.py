"""Decides whether a run may begin: the requester, the issue, the repository's settings, quotas."""

from __future__ import annotations

from dataclasses import dataclass

from bot.admission.existing_work import find_existing_work
from bot.admission.quota import claim_quota
from bot.admission.refusal import refuse
from bot.admission.trust import is_trusted
from bot.comments import replies
from bot.comments import status as comments
from bot.errors import RunFailed, RunRefused
from bot.github.errors import Forbidden
from bot.github.models import IssueFacts, RepositoryFacts
from bot.github.repository import Repository
from bot.repo_config.layers import LayerProblem
from bot.repo_config.load import read_config
from bot.repo_config.model import RepoConfig
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.triggers.labels import LabelSet
from bot.types import Failure, Mode, Run, RunStatus


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
            comment=comments.render_withdrawn(run, "disabled") if is_announced(run) else ""
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
        return RunRefused(comment=comments.render_withdrawn(run, "trust"))
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
