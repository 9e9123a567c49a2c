"""Finds signs that somebody works on an issue already. They are hints, not proof."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from bot.git.commits import BRANCH_PREFIX
from bot.github.models import ExistingWork, IssueFacts, LinkedPull
from bot.github.repository import Repository
from bot.types import Run

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
