"""What installations and repositories that come, go or move ask for.

GitHub sends the events of installations to every App unasked, and Apps cannot list them:
https://docs.github.com/webhooks/webhook-events-and-payloads#installation
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from pydantic import AliasPath, BaseModel, Field

from bot.data.request import AccessChange, AccessKind, AnyRequest
from bot.data.run import RepoRef
from bot.webhooks.payload import AccountPart, Delivery, Event, Payload


class _NamedRepository(BaseModel):
    """A repository as the events of installations name it."""

    id: int
    full_name: str = Field(pattern=r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$")


class _AccessPayload(Event):
    """`kind`: what happens to the repositories that it names."""

    kind: ClassVar[AccessKind]
    of_all: ClassVar[bool] = False
    installation: int = Field(validation_alias=AliasPath("installation", "id"))
    sender: AccountPart

    @abstractmethod
    def list_repos(self) -> Iterator[RepoRef]: ...

    def to_request(self, delivery: Delivery) -> AnyRequest:
        return AccessChange(
            kind=self.kind,
            repos=tuple(self.list_repos()),
            installation=self.installation,
            of_all=self.of_all,
            by=self.sender.login,
            delivery=delivery.id,
        )


class _Installed(_AccessPayload):
    """`repositories` are the installation's, as far as the event has them."""

    kind = "given"
    repositories: tuple[_NamedRepository, ...] = ()

    def list_repos(self) -> Iterator[RepoRef]:
        for one in self.repositories:
            owner, _, name = one.full_name.partition("/")
            yield RepoRef(id=one.id, owner=owner, name=name, installation=self.installation)


class _PermissionsAccepted(_Installed):
    kind = "accepted"


class _Uninstalled(_Installed):
    """Uninstalled or suspended: no repository of the installation can be worked on."""

    kind = "taken"
    of_all = True


class _RepositoriesAdded(_Installed):
    repositories: tuple[_NamedRepository, ...] = Field(default=(), alias="repositories_added")


class _RepositoriesRemoved(_Installed):
    kind = "taken"
    repositories: tuple[_NamedRepository, ...] = Field(default=(), alias="repositories_removed")


class _RepositoryMoved(Payload, _AccessPayload):
    kind = "moved"

    def list_repos(self) -> Iterator[RepoRef]:
        yield self.repo


class _RepositoryClosed(_RepositoryMoved):
    """It was deleted, or can only be read from now on."""

    kind = "taken"


PAYLOADS: Final[Mapping[str, Mapping[str, type[Event]]]] = {
    "installation": {
        "created": _Installed,
        "unsuspend": _Installed,
        "new_permissions_accepted": _PermissionsAccepted,
        "deleted": _Uninstalled,
        "suspend": _Uninstalled,
    },
    "installation_repositories": {"added": _RepositoriesAdded, "removed": _RepositoriesRemoved},
    "repository": {
        "renamed": _RepositoryMoved,
        "transferred": _RepositoryMoved,
        "archived": _RepositoryClosed,
        "deleted": _RepositoryClosed,
    },
}
