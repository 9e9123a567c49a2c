"""`/capuchin config propose`: a pull request with a settings file, for those who ask for one.

Nobody gets one unasked. Every effect is find-or-create, so that the command may come up again.
"""

from __future__ import annotations

from typing import Final

from bot.commands.command import Bench
from bot.comments import config_proposal as proposal
from bot.git.commit_style import habits_of
from bot.github.errors import Forbidden, NotFound, Unprocessable
from bot.github.models import PullRequestFacts
from bot.repo_config.model import CANDIDATES
from bot.settings import host_of

BRANCHES: Final = "capuchin/settings-"


async def propose(bench: Bench) -> None:
    """Answer with the pull request, or why there is none."""
    marker = proposal.marker_of(bench.order.id)
    for path in CANDIDATES:
        if await bench.repo.file_text(*path.split("/")) is not None:
            await bench.reply(proposal.there_already(path))
            return
    pull = await _there(bench, marker) or await _opened(bench, marker)
    said = proposal.no_branch() if pull is None else proposal.proposed(pull.number)
    await bench.reply(said)


async def _there(bench: Bench, marker: str) -> PullRequestFacts | None:
    """What was proposed before, and is open; or what this command has proposed."""
    async for branch in bench.repo.branches():
        if branch.startswith(BRANCHES):
            found = await bench.repo.pulls.find(branch, marker)
            if found is not None:
                return found
    return None


async def _opened(bench: Bench, marker: str) -> PullRequestFacts | None:
    repo, order = bench.repo, bench.order
    facts = await repo.facts()
    base = await repo.branch_head(facts.default_branch) if facts else None
    if facts is None or base is None:
        return None
    manners = await habits_of(repo)
    title = manners.titled("chore", proposal.title())
    branch = f"{BRANCHES}{order.id}"
    message = manners.message(title, "", repo.identity, order.by, host_of(bench.settings))
    text = proposal.file_text(bench.settings.public_url)
    if not await repo.branch_with(
        branch, base=base, path=proposal.PATH, text=text, message=message
    ):
        return None
    try:
        pull = await repo.pulls.open_once(
            branch=branch,
            base=facts.default_branch,
            title=title,
            body=proposal.body(order.by, marker),
            marker=marker,
            draft=False,
        )
    except (Forbidden, NotFound, Unprocessable):
        await repo.delete_branch(branch)
        return None
    await repo.pulls.request_review(pull.number, order.by)
    return pull
