"""The images of environments and of the base: what they record, pushing, and removal.

Every function raises `SandboxUnavailable` if Docker does not answer.
"""

import contextlib
import io
import logging
import tarfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
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

log = logging.getLogger(__name__)

PULLED: Final = "capuchin/pulled"
"""Images of registries, which go when the build that fetched them has ended."""


@dataclass(frozen=True)
class Image:
    """One of our images: a layer on top of its parent."""

    id: str
    name: str
    parent: str
    own_bytes: int
    """The size without the parent's."""
    used: datetime
    """When it was last requested."""


def find_image(client: docker.APIClient, image: str) -> dict[str, Any] | None:
    """Docker's facts about an image; None if there is no such image."""
    with translate_docker_errors("Docker could not look for an image"):
        try:
            return cast(dict[str, Any], client.inspect_image(image))
        except ImageNotFound:
            return None


def build_from_files(
    client: docker.APIClient, files: Mapping[str, bytes], **settings: Any
) -> tuple[str, str]:
    """Build an image from a Dockerfile and others, by their paths: the log, and the error, if any.

    `settings` are those of Docker's SDK.
    """
    context = io.BytesIO()
    folders = {str(folder) for name in files for folder in PurePosixPath(name).parents} - {"."}
    with tarfile.open(fileobj=context, mode="w") as archive:
        for folder in sorted(folders):
            member = tarfile.TarInfo(folder)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(member)
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o644
            archive.addfile(member, io.BytesIO(data))
    context.seek(0)
    lines = cast(
        Iterator[dict[str, Any]],
        client.build(
            fileobj=context, custom_context=True, rm=True, forcerm=True, decode=True, **settings
        ),
    )
    log, error = "", ""
    for line in lines:
        log += str(line.get("stream", ""))
        error = error or str(line.get("error", ""))
    return log, error


def touch_image(client: docker.APIClient, image: str) -> None:
    """Record that `image` was used just now: Docker stores the time of the last tagging."""
    repository, _, tag = image.partition(":")
    with translate_docker_errors("Docker could not tag an image"):
        client.tag(image, repository, tag)


def collect_images(client: docker.APIClient, *, maker: str, max_bytes: int) -> int:
    """Remove the least recently used images until the rest fits; how many bytes were freed.

    An image that a container uses, or that another is built on, stays.
    """
    images = list_images(client, filters={"label": f"{LABEL_MAKER}={maker}"})
    total = sum(image.own_bytes for image in images)
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
        if remove_image(client, oldest.name):
            freed += oldest.own_bytes
        else:
            # Its parent cannot go either.
            images = [image for image in images if image.id != oldest.parent]
    return freed


def collect_base_images(
    client: docker.APIClient,
    *,
    keep: str,
    unused_seconds: float,
    repositories: Sequence[str] = ("capuchin/base", "capuchin/rootfs", PULLED),
) -> None:
    """Remove base images of other versions that have not been used for so long.

    All installations on the host share them; one that an image or container needs stays.
    """
    now = datetime.now(UTC)
    found = [image for name in repositories for image in list_images(client, name=name)]
    for image in found:
        is_old = (now - image.used).total_seconds() >= unused_seconds
        if image.name != keep and is_old and not has_children(client, image.id):
            remove_image(client, image.name)


def has_children(client: docker.APIClient, image: str) -> bool:
    """Whether any other image has `image` as its parent."""
    with translate_docker_errors("Docker could not list images"):
        listed = cast(list[dict[str, Any]], client.images(all=True))
    return any(entry["ParentId"] == image for entry in listed)


def remove_image(client: docker.APIClient, image: str) -> bool:
    """Whether an image could be removed, with its layers that have no name."""
    try:
        client.remove_image(image)
    except APIError as error:
        log.info("Image %s was not removed: %s", image, error)
        return False
    return True


def list_images(client: docker.APIClient, **wanted: Any) -> list[Image]:
    """The images with a name that `wanted` selects, as Docker's SDK takes it."""
    with translate_docker_errors("Docker could not list images"):
        listed = cast(list[dict[str, Any]], client.images(**wanted))
    found: list[Image] = []
    for entry in listed:
        names = [name for name in entry["RepoTags"] or () if name != "<none>:<none>"]
        facts = find_image(client, names[0]) if names else None
        if facts is None:  # it has no name, or is gone in the meantime
            continue
        parent = (find_image(client, facts["Parent"]) if facts["Parent"] else None) or {"Size": 0}
        image = Image(
            id=str(facts["Id"]),
            name=names[0],
            parent=str(facts["Parent"]),
            own_bytes=int(facts["Size"]) - int(parent["Size"]),
            used=datetime.fromisoformat(facts["Metadata"]["LastTagTime"]),
        )
        found.append(image)
    return found


def read_image_installation(client: docker.APIClient, image: str) -> Installation | None:
    """What the installer recorded in `image`; None for one without a record, or that is gone."""
    config: Mapping[str, Any] = (find_image(client, image) or {}).get("Config") or {}
    labels: Mapping[str, str] = config.get("Labels") or {}
    return parse_installation(labels.get(LABEL_INSTALLATION, "").encode())


def read_dockerfile_environment(client: docker.APIClient, image: str) -> dict[str, str] | None:
    """The environment of programs in `image`: its ENV, with our interpreter first on PATH.

    None if the image is not built on a repository's Dockerfile, or is gone.
    """
    config: Mapping[str, Any] = (find_image(client, image) or {}).get("Config") or {}
    if LABEL_OWN_DOCKERFILE not in (config.get("Labels") or {}):
        return None
    stated = dict(line.partition("=")[::2] for line in config.get("Env") or ())
    path = stated.get("PATH") or PROGRAM_ENVIRONMENT["PATH"]
    ours = {name: PROGRAM_ENVIRONMENT[name] for name in ("HOME", "VIRTUAL_ENV")}
    return {**PROGRAM_ENVIRONMENT, **stated, **ours, "PATH": f"{ENVIRONMENT}/bin:{path}"}


def push_image(client: docker.APIClient, image: str, registry: str) -> str:
    """Push `image` and return its name in `registry`, by digest. Known layers are not sent again.

    The login comes from Docker's own configuration (`docker login`), which the SDK reads.

    Raises:
        SandboxUnavailable: Docker or the registry refuses it.
    """
    name, _, tag = image.partition(":")
    repository = f"{registry}/{name.replace('/', '-')}"
    failure = f"The environment image could not be pushed to {registry}"
    with translate_docker_errors(failure):
        client.tag(image, repository, tag)
        lines = cast(
            Iterator[dict[str, Any]], client.push(repository, tag=tag, stream=True, decode=True)
        )
        digest, error = "", ""
        for line in lines:
            error = error or str(line.get("error", ""))
            facts: dict[str, str] = line.get("aux") or {}
            digest = facts.get("Digest", digest)
    if error:
        raise SandboxUnavailable(f"{failure}: {error}")
    return f"{repository}@{digest}" if digest else f"{repository}:{tag}"


def clean_host(
    client: docker.APIClient, *, owner: str, live_runs: Collection[str], keep: str
) -> CleanupResult:
    """Remove all that `owner` made and no live run uses, and all base images except `keep`."""
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
    """Remove the containers of runs that are not in `live_runs`; how many there were."""
    removed = 0
    with translate_docker_errors("Docker could not list containers"):
        found: list[dict[str, Any]] = []
        # The daemon makes the second, for the RUN lines of a Dockerfile.
        made = [f"{LABEL_MAKER}={owner}", f"{LABEL_KIND}=rooted"]
        for labels in ([f"{LABEL_OWNER}={owner}"], made):
            wanted = {"label": labels}
            found += cast(list[dict[str, Any]], client.containers(all=True, filters=wanted))
    for container in found:
        run = container["Labels"].get(LABEL_RUN, "")
        age = time.time() - container["Created"]
        if run not in live_runs and age >= (older_than if run else unowned_seconds):
            remove_container(client, container["Id"])
            removed += 1
    return removed


def remove_dangling_images(client: docker.APIClient, *, maker: str) -> None:
    """Remove the layers of Dockerfiles that never became an image."""
    wanted = {"label": f"{LABEL_MAKER}={maker}", "dangling": True}
    gone = 1
    while gone:  # their parents can go in the next round
        with translate_docker_errors("Docker could not list images"):
            found = cast(list[dict[str, Any]], client.images(filters=wanted))
        gone = sum(remove_image(client, image["Id"]) for image in found)
