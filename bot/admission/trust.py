"""Whose word counts in a repository: GitHub is asked each time, and no answer means nobody's."""

from __future__ import annotations

from collections.abc import Iterable

from bot.github.repository import Repository

ROLES = {
    "write": frozenset({"admin", "maintain", "write"}),
    "triage": frozenset({"admin", "maintain", "write", "triage"}),
}


async def is_trusted(repo: Repository, login: str, trust: Iterable[str]) -> bool:
    """Whether a person may command, by the repository's `trust`.

    A login on the list must be one that GitHub lets into the repository: an account that is gone,
    blocked, or an App's, has no permission there. Raises as `GitHubClient.send` does.
    """
    permission = await repo.get_permission(login)
    if permission == "none":
        return False
    known = {entry.casefold() for entry in trust}
    return login.casefold() in known - ROLES.keys() or any(
        permission in ROLES[word] for word in known & ROLES.keys()
    )
