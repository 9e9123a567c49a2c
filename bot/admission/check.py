"""Whether a run may begin: who asked, whether the issue is open, what the repository says."""

from __future__ import annotations

from dataclasses import dataclass

from bot.admission.existing_work import signs
from bot.admission.quota import over_quota
from bot.admission.refusal import refuse
from bot.admission.trust import trusted
from bot.comments import replies
from bot.comments import status as comments
from bot.errors import Ended, Refused
from bot.github.errors import Forbidden
from bot.github.models import IssueFacts, RepositoryFacts
from bot.github.repository import Repository
from bot.repo_config.layers import LayerProblem
from bot.repo_config.load import read_config
from bot.repo_config.model import RepoConfig
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.triggers.labels import OPT_OUT, answered_by
from bot.types import Failure, Mode, Run, RunStatus


@dataclass(frozen=True)
class Admitted:
    facts: RepositoryFacts
    issue: IssueFacts
    config: RepoConfig


async def admitted(repo: Repository, run: Run, lease: Lease, settings: Settings) -> Admitted:
    """What the run works with.

    Raises:
        Refused: who asked may not, or not so often; the repository has switched us off; the label
            is off again; somebody seems to work on the issue.
        Ended: repository or issue gone, issue closed, configuration invalid.
    """
    facts = await repo.facts()
    if facts is None:
        raise Ended(Failure.REPOSITORY_GONE)
    issue = await repo.issues.get(run.issue)
    if issue is None or issue.pull_request is not None:
        raise Ended(Failure.ISSUE_GONE)
    found = await configured(repo)
    trust = found.trust if isinstance(found, RepoConfig) else RepoConfig().trust
    if not await trusted(repo, run.asked_by, trust):
        raise await _turned_away(repo, run, lease, settings, trust)
    if issue.state != "open":
        raise Ended(Failure.ISSUE_CLOSED)
    if isinstance(found, Ended):
        raise found
    _check_switches(run, issue, found, settings.label + OPT_OUT)
    if not begun(run):
        await _first_time(repo, run, lease, settings, issue, found)
    return Admitted(facts, issue, found)


def _check_switches(run: Run, issue: IssueFacts, config: RepoConfig, opt_out: str) -> None:
    """Raises Refused where we are switched off, in the repository or on the issue."""
    if not config.enabled:
        raise Refused(told=comments.withdrawn(run, "disabled") if begun(run) else "")
    if issue.wears(opt_out):
        raise Refused(told=replies.opted_out(run, opt_out))


def begun(run: Run) -> bool:
    """Whether people have been told of the run."""
    return run.comment_id is not None or run.base_commit != ""


async def configured(repo: Repository) -> RepoConfig | Ended:
    """The repository's configuration, or what to raise when it is not valid."""
    found = await read_config(repo)
    if isinstance(found, LayerProblem):
        source, problem = found
        detail = f"`{source}`, line {problem.line}: {problem.message}"
        return Ended(Failure.CONFIG_INVALID, detail)
    return found.config


async def _first_time(
    repo: Repository,
    run: Run,
    lease: Lease,
    settings: Settings,
    issue: IssueFacts,
    config: RepoConfig,
) -> None:
    """What is asked once, before people are told that work begins."""
    if run.label and not issue.wears(run.label):  # its webhook is late, or was lost
        raise Refused(RunStatus.STOPPED)
    if run.mode is Mode.FIX and not run.confirmed:
        seen = await signs(repo, run, issue, settings.assignee)
        if seen:
            told = replies.asked_back(run, seen, settings.app_name)
            raise Refused(RunStatus.ASKED_BACK, told)
    limit = await over_quota(lease, run, config.quota, settings)
    if limit is not None:
        text = replies.over_quota(run.asked_by, limit)
        await _refuse(repo, run, lease, settings.label, text)
        raise Refused


async def _turned_away(
    repo: Repository, run: Run, lease: Lease, settings: Settings, trust: tuple[str, ...]
) -> Refused:
    if begun(run):
        return Refused(told=comments.withdrawn(run, "trust"))
    await _refuse(repo, run, lease, settings.label, replies.refused(run.asked_by, trust))
    return Refused()


async def _refuse(repo: Repository, run: Run, lease: Lease, label: str, text: str) -> None:
    try:
        await lease.require()
        await refuse(lease, repo, run.issue, run.asked_by, text, wish=run.id)
        await lease.require()
        await repo.issues.remove_label(run.issue, answered_by(run, label))
    except Forbidden:  # locked or archived: nobody can be told there
        return
