"""Whether a run may begin: requester, issue, repository, daily quotas; one polite refusal."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from bot.admission.repository_settings import read_config
from bot.admission.trust import is_trusted
from bot.comments.refusals import refusal_marker, refusal_reply
from bot.data.failure import Failure, FailureFacts
from bot.data.github_facts import ExistingWork, IssueFacts, LinkedPull, RepositoryFacts
from bot.data.refusal import OptOut, Stranger
from bot.data.run import Login, Mode, QuotaLimit, Run, now
from bot.errors import Forbidden, NotFound, RunFailed, RunRefused
from bot.github.repository import Repository
from bot.repo_config.model import LayerProblem, RepoConfig
from bot.safe_text import code
from bot.settings import Settings
from bot.storage.quota import QuotaCounter, Refusals
from bot.webhooks.labels import LabelSet


async def claim_quota(counter: QuotaCounter, run: Run, settings: Settings) -> QuotaLimit | None:
    """Count the run, once, and return None; or return the limit that forbids it. Days are UTC."""
    limit = settings.quota_person
    counted_by = f"{run.repo.installation}@{run.asked_by}"
    fits = await counter.claim(run.id, now().date().isoformat(), counted_by, limit)
    return None if fits else QuotaLimit(limit)


async def refuse(
    refusals: Refusals,
    repo: Repository,
    issue: int,
    login: Login,
    refusal: Stranger | QuotaLimit,
    *,
    request_id: str,
    deferred: bool = False,
) -> None:
    """Comment why, unless the person got a refusal today. `deferred` as in `refusal_reply`.

    `request_id` names the refused request. Of two requests at the same moment only the first is
    answered; calling again for that one, after a crash, changes nothing.

    Raises:
        GitHubError: the comment cannot be written.
    """
    if not await refusals.claim(repo.ref, login, request_id):
        return
    text = refusal_reply(login, refusal, deferred=deferred)
    marker = refusal_marker(login)
    try:
        await repo.issues.comment_once(issue, marker, text, since=now() - timedelta(days=1))
    except (Forbidden, NotFound):  # locked or gone: refuse elsewhere instead
        await refusals.release(repo.ref, login)
        raise


MAX_SHOWN: Final = 5


async def find_existing_work(
    repo: Repository, run: Run, issue: IssueFacts, prefix: str
) -> ExistingWork:
    """Assignees, linked pull requests, and branches; `prefix` is what
    our branches begin with."""
    me = repo.identity.login
    ours = {run.asked_by.casefold(), me.casefold()}
    pulls = [
        pull
        async for pull in repo.issues.list_linked_pulls(run.issue)
        if pull.is_open and _is_fix_for(pull, run, ours=pull.author == me)
    ]
    heads = {pull.number for pull in pulls}
    branches = (
        ()
        if heads
        else _branches_for_issue(run.issue, [b async for b in repo.list_branches()], prefix)
    )
    return ExistingWork(
        locked=issue.locked,
        assignees=tuple(who for who in issue.assignees if who.casefold() not in ours)[:MAX_SHOWN],
        pulls=tuple(pull for pull in pulls if pull.author != me)[:MAX_SHOWN],
        ours=tuple(pull for pull in pulls if pull.author == me)[:MAX_SHOWN],
        branches=branches[:MAX_SHOWN],
    )


def _is_fix_for(pull: LinkedPull, run: Run, *, ours: bool) -> bool:
    """Whether it says so; an unproven one of `ours` says `Refs`."""
    here = re.escape(run.repo.full_name)
    target = rf"(?:(?:{here})?#|https?://\S+/{here}/issues/){run.issue}\b"
    text = f"{pull.title}\n{pull.body or ''}"
    # GitHub's document "Linking a pull request to an issue"
    words = rf"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?{'|refs' if ours else ''}):?\s+"
    is_here = pull.repository.lower() in ("", run.repo.full_name.lower())
    return is_here and re.search(words + target, text, re.I) is not None


def _branches_for_issue(number: int, branches: Sequence[str], prefix: str) -> tuple[str, ...]:
    """Not ours, which begin with `prefix`.

    GitHub's own button makes `12-slug`; the other patterns are common habits.
    """
    word = re.compile(
        rf"(?:.*/)?(?:{number}-[a-z]|(?:issue|fix|bug|gh|hotfix)[-_/#]?{number}(?!\d))", re.I
    )
    return tuple(b for b in branches if word.match(b) and not b.startswith(prefix))


@dataclass(frozen=True)
class Admission:
    facts: RepositoryFacts
    issue: IssueFacts
    config: RepoConfig


async def check_admission(
    repo: Repository, run: Run, counter: QuotaCounter, settings: Settings
) -> Admission:
    """Check that the run may begin or continue; counts it for the quotas.

    Raises:
        RunRefused: the requester may not start runs, or the quota is used up; the repository opted
            out; the label is gone; somebody seems to work on the issue.
        RunFailed: repository or issue gone, repository archived, issue closed, or configuration
            invalid.
        PermissionMissing: the installation has not accepted what a run needs.
    """
    facts = await _load_facts(repo)
    issue = await repo.issues.get(run.issue)
    if issue is None or issue.pull_request is not None:
        raise RunFailed(Failure.ISSUE_GONE)
    found = await load_repo_config(repo)
    config = found if isinstance(found, RepoConfig) else RepoConfig()
    if not await is_trusted(repo, run.asked_by, config.trust):
        raise RunRefused(Stranger(config.trust))
    await repo.check_permissions()
    if issue.state != "open":
        raise RunFailed(Failure.ISSUE_CLOSED)
    if isinstance(found, RunFailed):
        raise found
    opt_out = LabelSet(settings.label).opt_out
    if not config.enabled:
        raise RunRefused("switched off")
    if issue.has_label(opt_out):
        raise RunRefused(OptOut(opt_out))
    if not run.is_announced:
        await _check_first_start(repo, run, counter, settings, issue, config)
        if config.base_branch and await repo.get_branch_head(config.base_branch) is None:
            words = f"`base_branch`: there is no branch {code(config.base_branch)}"
            raise RunFailed(Failure.CONFIG_INVALID, FailureFacts(words=words))
        if run.mode in (Mode.FIX, Mode.AUTO):
            await _check_workflows(repo, config.base_branch, facts.default_branch)
    return Admission(facts, issue, config)


async def _check_workflows(repo: Repository, base: str, default: str) -> None:
    """Check that GitHub will take a branch on `base`, empty for the default one.

    It refuses the push of an App without `workflows` where a workflow file differs from the default
    branch's: nobody should pay for an edit before hearing that.

    Raises:
        RunFailed: it will not.
    """
    if base in ("", default):
        return
    here, there = await repo.get_workflows(base), await repo.get_workflows(default)
    if here not in ("", there):
        words = (
            f"`base_branch`: the files in `.github/workflows` of {code(base)} differ from those of "
            f"{code(default)}, and GitHub takes no branch with them from me. Make them equal on "
            f"both, such as by merging {code(default)} into {code(base)}, or fix on {code(default)}"
        )
        raise RunFailed(Failure.CONFIG_INVALID, FailureFacts(words=words))


async def _load_facts(repo: Repository) -> RepositoryFacts:
    """Raises RunFailed: the repository is gone, or can only be read."""
    facts = await repo.get_facts()
    if facts is None:
        raise RunFailed(Failure.REPOSITORY_GONE)
    if facts.archived:
        raise RunFailed(Failure.REPOSITORY_ARCHIVED)
    return facts


async def load_repo_config(repo: Repository) -> RepoConfig | RunFailed:
    """The repository's configuration, or the error to raise when it is invalid."""
    found = await read_config(repo)
    if isinstance(found, LayerProblem):
        source, problem = found
        words = f"`{source}`, line {problem.line}: {problem.message}"
        return RunFailed(Failure.CONFIG_INVALID, FailureFacts(words=words))
    return found.config


async def _check_first_start(
    repo: Repository,
    run: Run,
    counter: QuotaCounter,
    settings: Settings,
    issue: IssueFacts,
    config: RepoConfig,
) -> None:
    """Check what only the first start must check, before the run is announced.

    Raises:
        RunRefused.
    """
    if run.label and not issue.has_label(run.label):
        raise RunRefused("label removed")
    if run.mode is Mode.FIX and not run.confirmed:
        work = await find_existing_work(repo, run, issue, config.branch_prefix)
        if work:
            raise RunRefused(work)
    limit = await claim_quota(counter, run, settings)
    if limit is not None:
        raise RunRefused(limit)
