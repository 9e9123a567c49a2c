"""The base image of every sandbox: Debian, Python 3.11, git and our process 1.

`python -m sandbox.docker.base_image` builds it if it is missing.
"""

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Any, cast

import docker
from docker.errors import DockerException

from sandbox.docker import mmdebstrap
from sandbox.docker.build_lock import hold_build_lock
from sandbox.docker.docker_client import DockerAddress, translate_docker_errors
from sandbox.docker.images import build_from_files, find_image, touch_image
from sandbox.errors import SandboxUnavailable
from sandbox.layout import LABEL_KIND

REGISTRY_IMAGE = "python:3.11-slim-bookworm"


def ensure_base_image(
    client: docker.APIClient,
    *,
    root: str = "",
    address: DockerAddress | None = None,
    network: str = "bridge",
    on_progress: Callable[[str], None] = lambda _: None,
) -> str:
    """The reference of the base image, which is built first if it is missing. Blocking.

    `root` is the image it is built on, if not the usual one; `network` the Docker network. Several
    callers at once, in one process or several, build it once.

    Raises:
        SandboxUnavailable: Docker fails, or neither a registry nor mmdebstrap can be used.
    """
    reference = base_reference(root)
    if image_exists(client, reference):
        touch_image(client, reference)
        return reference
    with hold_build_lock("base image"):
        if not image_exists(client, reference):
            on_progress("The sandbox base image is missing; building it now.")
            found = obtain_root(client, address or DockerAddress(), on_progress, root)
            on_progress(f"Adding Capuchin's layer to {found}.")
            build_image(client, found, reference, network=network)
    return reference


def base_reference(root: str = "") -> str:
    """The name of the base image on `root`, whether it exists or not."""
    return f"capuchin/base:{recipe_digest(root)}"


def recipe_digest(root: str = "") -> str:
    """Changes whenever the image would, except with the content of an operator's own `root`."""
    digest = hashlib.sha256()
    for name, data in recipe_files().items():
        digest.update(name.encode() + b"\0" + data + b"\0")
    digest.update(repr((*mmdebstrap.RECIPE, root or REGISTRY_IMAGE)).encode())
    return digest.hexdigest()[:12]


def recipe_files() -> dict[str, bytes]:
    """Path in the build context to content: the programs of `guest/image`, and as the package
    `sandbox` what process 1, the installer and the network of builds import."""
    code = Path(str(resources.files("sandbox")))
    image = code / "guest/image"
    programs = [*image.glob("[!_]*.py"), image / "Dockerfile", image / "hosts"]
    modules = [code / "__init__.py", code / "output.py", code / "guest/__init__.py"]
    modules.append(code / "guest/spellings.py")
    for folder in ("installer", "network", "supervisor"):
        modules += (code / "guest" / folder).glob("*.py")
    found = {path.name: path.read_bytes() for path in sorted(programs)}
    named = {f"sandbox/{path.relative_to(code)}": path for path in sorted(modules)}
    return found | {name: path.read_bytes() for name, path in named.items()}


def image_exists(client: docker.APIClient, reference: str) -> bool:
    return find_image(client, reference) is not None


def obtain_root(
    client: docker.APIClient,
    address: DockerAddress,
    on_progress: Callable[[str], None],
    root: str = "",
) -> str:
    """The image to build on: `root`, or the registry's Python image, or our own Debian."""
    wanted = root or REGISTRY_IMAGE
    if image_exists(client, wanted) or pull_image(address, on_progress, wanted):
        return wanted
    if root:
        raise SandboxUnavailable(
            f"The image {root} is not on this Docker host and could not be pulled. Load it "
            "there, or set CAPUCHIN_SANDBOX_BASE to another."
        )
    digest = hashlib.sha256(repr(mmdebstrap.RECIPE).encode()).hexdigest()[:12]
    tag = f"capuchin/rootfs:{digest}"
    if not image_exists(client, tag):
        mmdebstrap.import_rootfs(client, tag, on_progress=on_progress)
    return tag


def pull_image(address: DockerAddress, on_progress: Callable[[str], None], image: str) -> bool:
    """Whether the image could be pulled; a silent or missing registry fails quickly."""
    on_progress(f"Pulling {image}.")
    client = address.connect(timeout=15)
    try:
        lines = cast(Iterator[dict[str, Any]], client.pull(image, stream=True, decode=True))
        # All of it is read: a half-read answer would keep its connection open.
        failed = [line for line in lines if "error" in line]
        return not failed and image_exists(client, image)
    except (DockerException, OSError):
        return False
    finally:
        client.close()


def build_image(
    client: docker.APIClient,
    root: str,
    reference: str,
    *,
    network: str,
    labels: Mapping[str, str] | None = None,
    arguments: Mapping[str, str] | None = None,
) -> None:
    """Build `reference` on `root`. With `labels`, a repository's own Dockerfile made `root`."""
    with translate_docker_errors("Docker could not build the base image"):
        log, error = build_from_files(
            client,
            recipe_files(),
            tag=reference,
            buildargs={**(arguments or {}), "ROOT": root, "OWN": "yes" if labels else ""},
            labels=dict(labels or {LABEL_KIND: "base"}),
            network_mode=network,
            timeout=600,
        )
    if error:
        raise ImageBuildFailed(error, " ".join(log.split())[-500:])


class ImageBuildFailed(SandboxUnavailable):
    """Our own layer could not be built on a root; `log` is the end of the build's output."""

    def __init__(self, error: str, log: str) -> None:
        super().__init__(f"The base image did not build: {error} {log}")
        self.log = f"{log}\n{error}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m sandbox.docker.base_image", description="Make the sandbox base image once."
    )
    parser.add_argument("--docker-url", help="the Docker daemon; default: the local socket")
    parser.add_argument("--docker-tls", type=Path, help="folder with ca.pem, cert.pem, key.pem")
    parser.add_argument("--ssh-config", type=Path, help="configuration of ssh for an ssh:// URL")
    parser.add_argument("--root", default="", help="CAPUCHIN_SANDBOX_BASE: the image it stands on")
    parser.add_argument(
        "--check", action="store_true", help="build nothing; exit with 0 if the image exists"
    )
    parser.add_argument(
        "--ping", action="store_true", help="build nothing; exit with 0 if Docker answers"
    )
    options = parser.parse_args(argv)
    address = DockerAddress(
        options.docker_url or "", tls=options.docker_tls, ssh_config=options.ssh_config
    )
    try:
        with (
            translate_docker_errors("Docker does not answer"),
            closing(address.connect()) as client,
        ):
            if options.ping:
                client.ping()
                return 0
            if options.check:
                return 0 if image_exists(client, base_reference(options.root)) else 1
            reference = ensure_base_image(
                client, root=options.root, address=address, on_progress=print_to_stderr
            )
    except SandboxUnavailable as error:
        print_to_stderr(str(error))
        return 1
    finally:
        address.close()
    sys.stdout.write(f"sandbox base image {reference}: ready\n")
    return 0


def print_to_stderr(line: str) -> None:
    sys.stderr.write(f"sandbox: {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
