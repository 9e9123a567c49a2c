"""The images that this installation made; pushing and reaping."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, cast

import docker
from docker.errors import APIError, ImageNotFound

from sandbox.docker.build_network import INDEX_VOLUME
from sandbox.docker.cold_execution import remove_container
from sandbox.docker.docker_client import LABEL_MAKER, LABEL_OWN_DOCKERFILE, translate_docker_errors
from sandbox.engine import UNOWNED_SECONDS, CleanupResult
from sandbox.environment.recipe import Installation, parse_installation
from sandbox.errors import SandboxUnavailable
from sandbox.layout import (
    ENVIRONMENT,
    LABEL_INSTALLATION,
    LABEL_KIND,
    LABEL_OWNER,
    LABEL_RUN,
    PROGRAM_ENVIRONMENT,
)

OUR_VARIABLES: Final = ("HOME", "VIRTUAL_ENV")

log = logging.getLogger(__name__)

BASES = ("capuchin/base", "capuchin/rootfs")
BASE_UNUSED_SECONDS = 14 * 24 * 3600
"""After this time nobody returns to a version."""


@dataclass(frozen=True)
class Image:
    """One of our images: a layer on top of its parent."""

    id: str
    name: str
    parent: str
    size: int
    """Bytes, without the parent's."""
    used: datetime
    """When it was last requested."""


def touch_image(client: docker.APIClient, image: str) -> None:
    """Record that `image` was used just now: Docker stores the time of the last tagging."""
    repository, _, tag = image.partition(":")
    with translate_docker_errors("Docker could not tag an image"):
        client.tag(image, repository, tag)


def collect_images(client: docker.APIClient, *, maker: str, max_bytes: int) -> int:
    """Remove the least recently used images until the rest fits; how many bytes were freed.

    An image that a container uses, or that another is built on, stays.

    Raises:
        SandboxUnavailable: Docker does not answer.
    """
    with translate_docker_errors("Docker could not list images"):
        images = list_images(client, maker)
    total = sum(image.size for image in images)
    freed = 0
    # Some images have no bytes of their own; if nothing may stay, they go as well.
    while total - freed > max_bytes or not max_bytes:
        parents = {image.parent for image in images}
        oldest = min(
            (image for image in images if image.id not in parents),
            key=lambda image: image.used,
            default=None,
        )
        if oldest is None:
            break
        images.remove(oldest)
        if remove_image(client, oldest):
            freed += oldest.size
        else:
            # Its parent cannot go either.
            images = [image for image in images if image.id != oldest.parent]
    return freed


def collect_base_images(
    client: docker.APIClient,
    *,
    keep: str,
    unused_seconds: float,
    repositories: Sequence[str] = BASES,
) -> int:
    """Remove base images of other versions that have not been used so long; how many.

    All installations on the host share them; one that an image or container needs stays.

    Raises:
        SandboxUnavailable: Docker does not answer.
    """
    now = datetime.now(UTC)
    removed = 0
    with translate_docker_errors("Docker could not list images"):
        for repository in repositories:
            listed = cast(list[dict[str, Any]], client.images(repository))
            found = [
                image
                for entry in listed
                for image in [inspect_image(client, entry["RepoTags"])]
                if image
            ]
            for image in found:
                age = (now - image.used).total_seconds()
                if (
                    image.name != keep
                    and age >= unused_seconds
                    and not has_children(client, image.id)
                ):
                    removed += remove_image(client, image)
    return removed


def has_children(client: docker.APIClient, image: str) -> bool:
    """Whether any other image has `image` as its parent."""
    listed = cast(list[dict[str, Any]], client.images(all=True))
    return any(entry["ParentId"] == image for entry in listed)


def remove_image(client: docker.APIClient, image: Image) -> bool:
    try:
        # Docker also removes its layers without a name.
        client.remove_image(image.name)
    except (APIError, ImageNotFound) as error:
        log.info("Image %s was not removed: %s", image.name, error)
        return False
    return True


def list_images(client: docker.APIClient, maker: str) -> list[Image]:
    listed = cast(list[dict[str, Any]], client.images(filters={"label": f"{LABEL_MAKER}={maker}"}))
    inspected = [inspect_image(client, entry["RepoTags"]) for entry in listed]
    return [image for image in inspected if image is not None]


def inspect_image(client: docker.APIClient, names: Iterable[str] | None) -> Image | None:
    """None for an image that has no name, or is gone in the meantime."""
    name = next((name for name in names or () if name != "<none>:<none>"), None)
    if name is None:
        return None
    try:
        facts = cast(dict[str, Any], client.inspect_image(name))
    except ImageNotFound:
        return None
    parent = str(facts["Parent"])
    return Image(
        id=str(facts["Id"]),
        name=name,
        parent=parent,
        size=int(facts["Size"]) - image_size(client, parent),
        used=parse_time(str(facts["Metadata"]["LastTagTime"])),
    )


def image_size(client: docker.APIClient, image: str) -> int:
    try:
        return int(cast(dict[str, Any], client.inspect_image(image))["Size"]) if image else 0
    except ImageNotFound:
        return 0


def parse_time(text: str) -> datetime:
    """Docker's time, which has up to nine digits after the second and may have a zone.

    The time of an image that was loaded and never tagged is in the year 1.
    """
    found = re.fullmatch(r"([\d:T-]{19})(?:\.(\d+))?(Z|[+-]\d\d:\d\d)?", text)
    if not found:
        return datetime.min.replace(tzinfo=UTC)
    head, fraction, zone = found.groups(default="")
    return datetime.fromisoformat(f"{head}.{fraction[:6]:0<6}{zone.replace('Z', '') or '+00:00'}")


def _read_config(client: docker.APIClient, image: str) -> Mapping[str, Any] | None:
    """The configuration of `image`; None if it is gone."""
    with translate_docker_errors("Docker could not look for an image"):
        try:
            facts = cast(dict[str, Any], client.inspect_image(image))
        except ImageNotFound:
            return None
    return facts["Config"] or {}


def read_image_installation(client: docker.APIClient, image: str) -> Installation | None:
    """What the installer recorded in `image`; None for one without a record, or that is gone.

    Raises:
        SandboxUnavailable: Docker does not answer.
    """
    config = _read_config(client, image)
    if config is None:
        return None
    labels: Mapping[str, str] = config.get("Labels") or {}
    return parse_installation(labels.get(LABEL_INSTALLATION, "").encode())


def read_dockerfile_environment(client: docker.APIClient, image: str) -> dict[str, str] | None:
    """The environment of programs in `image`: its ENV, with our interpreter first on PATH.

    None if the image is not built on a repository's Dockerfile, or is gone.

    Raises:
        SandboxUnavailable: Docker does not answer.
    """
    config = _read_config(client, image)
    if config is None:
        return None
    if LABEL_OWN_DOCKERFILE not in (config.get("Labels") or {}):
        return None
    stated = dict(line.partition("=")[::2] for line in config.get("Env") or ())
    path = stated.get("PATH") or PROGRAM_ENVIRONMENT["PATH"]
    ours = {name: PROGRAM_ENVIRONMENT[name] for name in OUR_VARIABLES}
    return {**PROGRAM_ENVIRONMENT, **stated, **ours, "PATH": f"{ENVIRONMENT}/bin:{path}"}


def push_image(client: docker.APIClient, image: str, registry: str) -> str:
    """Push `image` and return its name in `registry`, by digest. Known layers are not sent again.

    The login is that of Docker's own configuration (`docker login`), which the SDK reads.

    Raises:
        SandboxUnavailable: Docker or the registry refuses it.
    """
    name, _, tag = image.partition(":")
    repository = f"{registry}/{name.replace('/', '-')}"
    with translate_docker_errors(f"The environment image could not be pushed to {registry}"):
        try:
            client.tag(image, repository, tag)
        except ImageNotFound as error:
            raise SandboxUnavailable(
                f"The environment image {image} is gone; prepare it again."
            ) from error
        lines = cast(
            Iterator[dict[str, Any]], client.push(repository, tag=tag, stream=True, decode=True)
        )
        digest, error = "", ""
        for line in lines:
            error = error or str(line.get("error", ""))
            facts: dict[str, str] = line.get("aux") or {}
            digest = facts.get("Digest", digest)
    if error:
        raise SandboxUnavailable(
            f"The environment image could not be pushed to {registry}: {error}"
        )
    return f"{repository}@{digest}" if digest else f"{repository}:{tag}"


ROOTED_LABEL = f"{LABEL_KIND}=rooted"


def clean_host(
    client: docker.APIClient, *, owner: str, live_runs: Collection[str], keep: str
) -> CleanupResult:
    """Remove all that `owner` made and no live run uses, and all base images except `keep`.

    Raises:
        SandboxUnavailable: Docker does not answer.
    """
    gone = reap_containers(
        client, owner=owner, live_runs=live_runs, older_than=0, unowned_seconds=0
    )
    freed = collect_images(client, maker=owner, max_bytes=0)
    remove_dangling_images(client, maker=owner)
    collect_base_images(client, keep=keep, unused_seconds=0)
    with contextlib.suppress(APIError):  # there is none, or a build uses it
        client.remove_volume(INDEX_VOLUME)
    return CleanupResult(gone, freed)


def reap_containers(
    client: docker.APIClient,
    *,
    owner: str,
    live_runs: Collection[str],
    older_than: float,
    unowned_seconds: float = UNOWNED_SECONDS,
) -> int:
    """Remove the containers of runs that are not in `live_runs`; how many there were.

    Raises:
        SandboxUnavailable: Docker does not answer.
    """
    removed = 0
    with translate_docker_errors("Docker could not list containers"):
        found: list[dict[str, Any]] = []
        for labels in ([f"{LABEL_OWNER}={owner}"], [f"{LABEL_MAKER}={owner}", ROOTED_LABEL]):
            # The second are made by the daemon, for the RUN lines of a Dockerfile.
            wanted = {"label": labels}
            found += cast(list[dict[str, Any]], client.containers(all=True, filters=wanted))
    for container in found:
        run = container["Labels"].get(LABEL_RUN, "")
        age = time.time() - container["Created"]
        if run not in live_runs and age >= (older_than if run else unowned_seconds):
            remove_container(client, container["Id"])
            removed += 1
    return removed


def remove_dangling_images(client: docker.APIClient, *, maker: str) -> int:
    """Remove the layers of Dockerfiles that never became an image; how many.

    Raises:
        SandboxUnavailable: Docker does not answer.
    """
    wanted = {"label": f"{LABEL_MAKER}={maker}", "dangling": True}
    removed = 0
    while True:
        with translate_docker_errors("Docker could not list images"):
            found = cast(list[dict[str, Any]], client.images(filters=wanted))
        gone = sum(_try_remove_image(client, image["Id"]) for image in found)
        removed += gone
        if not gone:  # their parents can go in the next round
            return removed


def _try_remove_image(client: docker.APIClient, image: str) -> bool:
    try:
        client.remove_image(image)
    except APIError:
        return False
    return True
