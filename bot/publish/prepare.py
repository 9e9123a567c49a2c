"""What a run publishes, in the form that its repository wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bot.admission.check import Admitted
from bot.comments.code_destinations import elsewhere, told
from bot.git.commit_style import Manners, manners_of
from bot.git.mirrors import Checkout
from bot.github.repository import Repository
from bot.publish.publish import Answer
from bot.publish.pull_template import template_of
from bot.settings import Settings, host_of
from bot.storage.checkpoints import RedisStore
from bot.storage.lease import Lease
from bot.types import Mode
from pipeline.codebase.commit import Codebase
from pipeline.types import Account, Issue, Selection

MANNERS_KEY = "manners"


class Found(NamedTuple):
    """What a run has come to."""

    issue: Issue
    selection: Selection
    accounts: Sequence[Account]
    sent_to: Sequence[str] = ()
    """As in `Ledger`."""


async def answer_to(
    found: Found,
    repo: Repository,
    checkout: Checkout,
    lease: Lease,
    may: Admitted,
    settings: Settings,
) -> Answer:
    """Draft or not, with the repository's template, labels and manners. Raises as `Wire.send`."""
    run, config = lease.run, may.config
    codebase = await Codebase.open(checkout.git_dir, checkout.base)
    return Answer(
        run=run,
        issue=found.issue,
        selection=found.selection,
        accounts=found.accounts,
        sent=told(elsewhere(found.sent_to, settings, served=True), found.accounts, served=True),
        draft=config.draft is not False and run.mode is not Mode.AUTO,
        until_green=config.draft == "until_green",
        manners=await _manners(repo, codebase, RedisStore.of(lease)),
        template=await template_of(repo, codebase),
        labels=config.labels,
        host=host_of(settings),
    )


async def _manners(repo: Repository, codebase: Codebase, store: RedisStore) -> Manners:
    """As the first worker found them: who goes on after a crash makes the same commits."""
    known = await store.load(MANNERS_KEY, Manners)
    if known is None:
        known = await manners_of(repo, codebase)
        await store.save(MANNERS_KEY, known)
    return known
