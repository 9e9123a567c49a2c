"""A Debian root file system for Docker, made with mmdebstrap where no registry answers."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import docker

from sandbox.docker.docker_client import translate_docker_errors
from sandbox.errors import SandboxUnavailable
from sandbox.scratch import scratch_folder

SUITE = "bookworm"
PACKAGES = ("ca-certificates", "git", "python3", "python3-pip", "python3-venv")
DEFAULT_MIRROR = "http://deb.debian.org/debian"
EXCLUDED_PATHS = (
    "./dev/*",
    "./proc/*",
    "./sys/*",
    "./tmp/*",
    "./usr/share/doc/*",
    "./usr/share/info/*",
    "./usr/share/locale/*",
    "./usr/share/man/*",
    "./var/cache/*",
    "./var/lib/apt/lists/*",
    "./var/log/*",
)
RECIPE = (SUITE, PACKAGES, EXCLUDED_PATHS)
"""What the image depends on."""
BOOTSTRAP_SECONDS = 900
BUILD_FOLDER = "/var/tmp"  # noqa: S108 - mmdebstrap makes device files, which many a /tmp forbids
SEARCH_PATH = os.pathsep.join([os.defpath, "/usr/local/sbin", "/usr/sbin", "/sbin"])
NO_BASE_MESSAGE = (
    "No registry answers and the base image cannot be built here: {reason}. Install mmdebstrap "
    "(`apt-get install mmdebstrap debian-archive-keyring`) and run this as root or with "
    "passwordless sudo, or load an image with Python 3.11 and git as {root}."
)


def import_rootfs(
    client: docker.APIClient, tag: str, *, on_progress: Callable[[str], None]
) -> None:
    """Make the image `tag` from a fresh minimal Debian.

    Raises:
        SandboxUnavailable: mmdebstrap is missing, not permitted or failed; says what to do.
    """
    root_command = root_command_prefix(tag)
    with scratch_folder("rootfs", Path(BUILD_FOLDER)) as place:
        target = place / "root"
        on_progress(f"Building a Debian {SUITE} root with mmdebstrap from {debian_mirror()}.")
        try:
            run_mmdebstrap(root_command, target, tag)
            on_progress("Importing it into Docker.")
            archive = place / "root.tar"
            pack_root(root_command, target, archive)
            with translate_docker_errors("Docker did not import the root file system"):
                repository, _, version = tag.partition(":")
                client.import_image_from_file(str(archive), repository=repository, tag=version)
        finally:
            subprocess.run(
                [*root_command, "rm", "-rf", "--one-file-system", str(target)], check=False
            )


def root_command_prefix(tag: str, *, path: str = SEARCH_PATH) -> list[str]:
    """The prefix that makes a command run as root: nothing, or `sudo -n`."""
    if not shutil.which("mmdebstrap", path=path):
        raise SandboxUnavailable(
            NO_BASE_MESSAGE.format(reason="mmdebstrap is not installed", root=tag)
        )
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if (
        sudo
        and subprocess.run([sudo, "-n", "true"], check=False, capture_output=True).returncode == 0
    ):
        return [sudo, "-n"]
    raise SandboxUnavailable(NO_BASE_MESSAGE.format(reason="mmdebstrap needs root", root=tag))


def run_mmdebstrap(root_command: list[str], target: Path, tag: str) -> None:
    program = shutil.which("mmdebstrap", path=SEARCH_PATH) or "mmdebstrap"
    include = f"--include={','.join(PACKAGES)}"
    argv = [
        *root_command,
        program,
        "--mode=root",
        "--variant=minbase",
        include,
        SUITE,
        str(target),
        debian_mirror(),
    ]
    try:
        done = subprocess.run(argv, check=False, capture_output=True, timeout=BOOTSTRAP_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailable(NO_BASE_MESSAGE.format(reason=str(error), root=tag)) from error
    if done.returncode:
        tail = " ".join(done.stderr.decode(errors="replace").split())[-300:]
        raise SandboxUnavailable(
            NO_BASE_MESSAGE.format(reason=f"mmdebstrap failed ({tail})", root=tag)
        )


def pack_root(root_command: list[str], target: Path, archive: Path) -> None:
    excludes = [f"--exclude={pattern}" for pattern in EXCLUDED_PATHS]
    argv = [*root_command, "tar", "-C", str(target), "--numeric-owner", *excludes, "-cf", "-", "."]
    with archive.open("wb") as out:
        done = subprocess.run(argv, check=False, stdout=out, stderr=subprocess.PIPE)
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip()
        raise SandboxUnavailable(f"The root file system could not be packed: {words[-300:]}")


def debian_mirror(apt: Path = Path("/etc/apt")) -> str:
    """The Debian mirror of the host's own apt, else the default one."""
    files = [apt / "sources.list", *sorted(apt.glob("sources.list.d/*"))]
    for file in files:
        if file.is_file() and file.suffix in {".list", ".sources"}:
            for url in source_urls(file.read_text(errors="replace")):
                if url.rstrip("/").endswith("/debian"):
                    return url
    return DEFAULT_MIRROR


def source_urls(sources: str) -> list[str]:
    """The addresses in an apt source list, in either of its two formats."""
    found: list[str] = []
    for line in sources.splitlines():
        words = line.split()
        if words and words[0] in {"deb", "URIs:"}:
            found += [word for word in words[1:] if word.startswith(("http://", "https://"))]
    return found
