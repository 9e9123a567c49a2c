"""What installations and repositories that come, go or move ask for.

GitHub sends the events of installations to every App unasked, and Apps cannot list them:
https://docs.github.com/webhooks/webhook-events-and-payloads#installation
"""

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, Field

from bot.data.request import AccessChange, AccessKind, AnyRequest
from bot.data.run import RepoRef
from bot.webhooks.payload import AccountPart, Delivery, Event, InstallationPart, Payload
from sandbox.frozen import replace


class _NamedRepository(BaseModel):
    """A repository as the events of installations name it."""

    id: int
    full_name: str = Field(pattern=r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$")


class _InstallationPayload(Event):
    """`repositories` are the installation's, as far as the event has them."""

    installation: InstallationPart
    sender: AccountPart
    repositories: tuple[_NamedRepository, ...] = ()

    def _to_change(
        self, delivery: Delivery, kind: AccessKind, named: tuple[_NamedRepository, ...]
    ) -> AccessChange:
        repos: list[RepoRef] = []
        for one in named:
            owner, _, name = one.full_name.partition("/")
            installation = self.installation.id
            repos.append(RepoRef(id=one.id, owner=owner, name=name, installation=installation))
        return AccessChange(
            kind=kind,
            repos=tuple(repos),
            installation=self.installation.id,
            by=self.sender.login,
            delivery=delivery.id,
        )


class _Installed(_InstallationPayload):
    def to_request(self, delivery: Delivery) -> AnyRequest:
        return self._to_change(delivery, "given", self.repositories)


class _PermissionsAccepted(_InstallationPayload):
    def to_request(self, delivery: Delivery) -> AnyRequest:
        return self._to_change(delivery, "accepted", self.repositories)


class _Uninstalled(_InstallationPayload):
    """Uninstalled or suspended: no repository of the installation can be worked on."""

    def to_request(self, delivery: Delivery) -> AnyRequest:
        change = self._to_change(delivery, "taken", self.repositories)
        return replace(change, of_all=True)


class _RepositoriesAdded(_InstallationPayload):
    repositories_added: tuple[_NamedRepository, ...] = ()

    def to_request(self, delivery: Delivery) -> AnyRequest:
        return self._to_change(delivery, "given", self.repositories_added)


class _RepositoriesRemoved(_InstallationPayload):
    repositories_removed: tuple[_NamedRepository, ...] = ()

    def to_request(self, delivery: Delivery) -> AnyRequest:
        return self._to_change(delivery, "taken", self.repositories_removed)


class _RepositoryPayload(Payload):
    def _to_change(self, delivery: Delivery, kind: AccessKind) -> AccessChange:
        return AccessChange(
            kind=kind,
            repos=(self.repo,),
            installation=self.installation.id,
            by=self.sender.login,
            delivery=delivery.id,
        )


class _RepositoryMoved(_RepositoryPayload):
    def to_request(self, delivery: Delivery) -> AnyRequest:
        return self._to_change(delivery, "moved")


class _RepositoryClosed(_RepositoryPayload):
    """It was deleted, or can only be read from now on."""

    def to_request(self, delivery: Delivery) -> AnyRequest:
        return self._to_change(delivery, "taken")


PAYLOADS: Final[Mapping[str, Mapping[str, type[Event]]]] = {
    "installation": {
        "created": _Installed,
        "unsuspend": _Installed,
        "new_permissions_accepted": _PermissionsAccepted,
        "deleted": _Uninstalled,
        "suspend": _Uninstalled,
    },
    "installation_repositories": {
        "added": _RepositoriesAdded,
        "removed": _RepositoriesRemoved,
    },
    "repository": {
        "renamed": _RepositoryMoved,
        "transferred": _RepositoryMoved,
        "archived": _RepositoryClosed,
        "deleted": _RepositoryClosed,
    },
}
