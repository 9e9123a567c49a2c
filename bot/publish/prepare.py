"""What a run publishes, in the form that its repository wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bot.admission.check import Admission
from bot.comments.code_destinations import destinations_note, external_hosts
from bot.git.commit_style import CommitStyle, detect_commit_style
from bot.git.mirrors import Checkout
from bot.github.repository import Repository
from bot.publish.publish import Publication
from bot.publish.pull_template import find_template
from bot.settings import Settings, github_host
from bot.storage.checkpoints import RedisStore
from bot.storage.lease import Lease
from bot.types import Mode
from pipeline.codebase.commit import Codebase
from pipeline.types import Account, Issue, Selection

COMMIT_STYLE_KEY = "manners"


class FixResult(NamedTuple):
    """What a run has come to."""

    issue: Issue
    selection: Selection
    accounts: Sequence[Account]
    sent_to: Sequence[str] = ()
    """As in `Ledger`."""


async def prepare_publication(
    result: FixResult,
    repo: Repository,
    checkout: Checkout,
    lease: Lease,
    admission: Admission,
    settings: Settings,
) -> Publication:
    """Draft or not, with the repository's template, labels and manners.

    Raises as `GitHubClient.send`.
    """
    run, config = lease.run, admission.config
    codebase = await Codebase.open(checkout.git_dir, checkout.base)
    return Publication(
        run=run,
        issue=result.issue,
        selection=result.selection,
        accounts=result.accounts,
        destinations=destinations_note(
            external_hosts(result.sent_to, settings, by_app=True), result.accounts, by_app=True
        ),
        draft=config.draft is not False and run.mode is not Mode.AUTO,
        ready_when_green=config.draft == "until_green",
        commit_style=await _load_commit_style(repo, codebase, lease.checkpoints),
        template=await find_template(repo, codebase),
        labels=config.labels,
        host=github_host(settings),
    )


async def _load_commit_style(
    repo: Repository, codebase: Codebase, store: RedisStore
) -> CommitStyle:
    """As the first worker found them: who goes on after a crash makes the same commits."""
    known = await store.load(COMMIT_STYLE_KEY, CommitStyle)
    if known is None:
        known = await detect_commit_style(repo, codebase)
        await store.save(COMMIT_STYLE_KEY, known)
    return known
