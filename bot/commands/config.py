"""`/capuchin config propose`: opens a pull request with a settings file.

Every effect is find-or-create, because the command may run again.
"""

from __future__ import annotations

from typing import Final

from bot.commands.command import CommandContext
from bot.comments import config_proposal as proposal
from bot.git.commit_style import detect_commit_style
from bot.github.errors import Forbidden, NotFound, Unprocessable
from bot.github.models import PullRequestFacts
from bot.repo_config.model import CONFIG_PATHS
from bot.settings import github_host
from bot.types import RunId
from pipeline.environment.memory import WorkingAttempt, load_working_setup

BRANCH_PREFIX: Final = "capuchin/settings-"


async def propose_config(ctx: CommandContext) -> None:
    """Open the pull request and reply with its number, or with why there is none."""
    marker = proposal.proposal_marker(ctx.request.id)
    for path in CONFIG_PATHS:
        if await ctx.repo.read_file(*path.split("/")) is not None:
            await ctx.reply(proposal.file_exists(path, await _load_working_setup(ctx)))
            return
    pull = await _find_proposal(ctx, marker) or await _open_proposal(ctx, marker)
    text = proposal.cannot_propose() if pull is None else proposal.proposal_opened(pull.number)
    await ctx.reply(text)


async def _load_working_setup(ctx: CommandContext) -> WorkingAttempt | None:
    """A model's commands that last made the repository's environment work."""
    store = ctx.queue.storage.repository(ctx.request.repo, RunId(ctx.request.id))
    return await load_working_setup(store)


async def _find_proposal(ctx: CommandContext, marker: str) -> PullRequestFacts | None:
    """An open proposal, or the one that an earlier try of this command opened."""
    async for branch in ctx.repo.list_branches():
        if branch.startswith(BRANCH_PREFIX):
            found = await ctx.repo.pulls.find(branch, marker)
            if found is not None:
                return found
    return None


async def _open_proposal(ctx: CommandContext, marker: str) -> PullRequestFacts | None:
    repo, request = ctx.repo, ctx.request
    facts = await repo.get_facts()
    base = await repo.get_branch_head(facts.default_branch) if facts else None
    if facts is None or base is None:
        return None
    style = await detect_commit_style(repo)
    title = style.format_title("chore", proposal.pull_title())
    branch = f"{BRANCH_PREFIX}{request.id}"
    message = style.format_message(title, "", repo.identity, request.by, github_host(ctx.settings))
    working = await _load_working_setup(ctx)
    text = proposal.render_file(ctx.settings.public_url, working)
    if not await repo.create_branch_with(
        branch, base=base, path=proposal.PATH, text=text, message=message
    ):
        return None
    try:
        pull = await repo.pulls.open_once(
            branch=branch,
            base=facts.default_branch,
            title=title,
            body=proposal.pull_body(request.by, marker, sets_up=working is not None),
            marker=marker,
            draft=False,
        )
    except (Forbidden, NotFound, Unprocessable):
        await repo.delete_branch(branch)
        return None
    await repo.pulls.request_review(pull.number, request.by)
    return pull
