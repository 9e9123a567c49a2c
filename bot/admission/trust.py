"""Decides who may give commands in a repository. Asks GitHub each time; no answer means no."""

from __future__ import annotations

from collections.abc import Iterable

from bot.github.repository import Repository
from bot.types import Login

ROLES = {
    "write": frozenset({"admin", "maintain", "write"}),
    "triage": frozenset({"admin", "maintain", "write", "triage"}),
}


async def is_trusted(repo: Repository, login: Login, trust: Iterable[str]) -> bool:
    """Whether a person may give commands, by the repository's `trust` list.

    A login on the list also needs some permission in the repository, which deleted and blocked
    accounts and Apps do not have. `@write` is a login, `write` a role.

    Raises:
        GitHubError.
    """
    permission = await repo.get_permission(login)
    if permission == "none":
        return False
    known = {entry.casefold() for entry in trust}
    logins = {entry.removeprefix("@") for entry in known - ROLES.keys()}
    return login.casefold() in logins or any(
        permission in ROLES[word] for word in known & ROLES.keys()
    )
