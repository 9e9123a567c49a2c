"""Decides who may give commands in a repository. Asks GitHub each time; no answer means no."""

from __future__ import annotations

from collections.abc import Iterable

from bot.github.repository import Repository

ROLES = {
    "write": frozenset({"admin", "maintain", "write"}),
    "triage": frozenset({"admin", "maintain", "write", "triage"}),
}


async def is_trusted(repo: Repository, login: str, trust: Iterable[str]) -> bool:
    """Whether a person may give commands, by the repository's `trust` list.

    A login on the list also needs some permission in the repository, which deleted and blocked
    accounts and Apps do not have.

    Raises:
        GitHubError.
    """
    permission = await repo.get_permission(login)
    if permission == "none":
        return False
    known = {entry.casefold() for entry in trust}
    return login.casefold() in known - ROLES.keys() or any(
        permission in ROLES[word] for word in known & ROLES.keys()
    )
