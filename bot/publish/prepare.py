"""Turns the outcome of a run into what is published, in the form that the repository wants."""

from __future__ import annotations

from bot.comments.code_destinations import destinations_note, external_hosts
from bot.comments.evidence.opening import UNPROVEN_LABEL
from bot.git.commit_style import CommitStyle, detect_commit_style
from bot.publish.publish import Publication, PublishContext
from bot.publish.pull_template import find_template
from bot.runner.types import Outcome
from bot.settings import github_host
from bot.types import Mode
from pipeline.codebase.commit import Codebase
from pipeline.types import Issue, Selection

COMMIT_STYLE_KEY = "manners"


async def prepare_publication(
    fix: Outcome[Selection], issue: Issue, ctx: PublishContext
) -> Publication:
    """The chosen edit with the repository's template, labels and commit style.

    Raises:
        GitHubError: from reading the repository.
    """
    run, config, settings = ctx.lease.run, ctx.config, ctx.settings
    codebase = await Codebase.open(ctx.checkout.git_dir, ctx.checkout.base)
    hosts = external_hosts(fix.sent_to, settings, by_app=True)
    proven = fix.result.is_proven
    return Publication(
        run=run,
        issue=issue,
        selection=fix.result,
        accounts=fix.accounts,
        destinations=destinations_note(hosts, fix.accounts, by_app=True),
        draft=not proven or (config.draft is not False and run.mode is not Mode.AUTO),
        ready_when_green=proven and config.draft == "until_green",
        commit_style=await _load_commit_style(ctx, codebase),
        template=await find_template(ctx.repo, codebase),
        labels=config.labels if proven else (*config.labels, settings.label + UNPROVEN_LABEL),
        host=github_host(settings),
    )


async def _load_commit_style(ctx: PublishContext, codebase: Codebase) -> CommitStyle:
    """The style that the first worker found: after a crash, the next makes the same commits."""
    store = ctx.lease.checkpoints
    known = await store.load(COMMIT_STYLE_KEY, CommitStyle)
    if known is None:
        known = await detect_commit_style(ctx.repo, codebase)
        await store.save(COMMIT_STYLE_KEY, known)
    return known
