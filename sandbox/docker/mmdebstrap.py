"""A Debian root file system for Docker, made with mmdebstrap where no registry answers."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import docker

from sandbox.docker.docker_client import translate_docker_errors
from sandbox.errors import SandboxUnavailable
from sandbox.scratch import scratch_folder

SUITE = "bookworm"
PACKAGES = (
    *("ca-certificates", "git", "python3", "python3-pip", "python3-venv"),
    # What tests call as they find it on every hosted runner, and what weighs little.
    *("file", "less", "make", "unzip"),
)
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
BUILD_FOLDER = "/var/tmp"  # noqa: S108 - mmdebstrap makes device files, which many a /tmp forbids
SEARCH_PATH = os.pathsep.join([os.defpath, "/usr/local/sbin", "/usr/sbin", "/sbin"])


class NoBaseImage(SandboxUnavailable):
    """The base image can be neither pulled nor built here; says what to do."""

    def __init__(self, reason: str, tag: str) -> None:
        super().__init__(
            f"No registry answers and the base image cannot be built here: {reason}. Install "
            "mmdebstrap (`apt-get install mmdebstrap debian-archive-keyring`) and run this as root "
            f"or with passwordless sudo, or load an image with Python 3.11 and git as {tag}."
        )


def import_rootfs(
    client: docker.APIClient, tag: str, *, on_progress: Callable[[str], None]
) -> None:
    """Make the image `tag` from a fresh minimal Debian.

    Raises:
        SandboxUnavailable: mmdebstrap is missing, not permitted or failed; says what to do.
    """
    as_root = root_command_prefix(tag)
    with scratch_folder("rootfs", Path(BUILD_FOLDER)) as place:
        target, archive = place / "root", place / "root.tar"
        on_progress(f"Building a Debian {SUITE} root with mmdebstrap from {debian_mirror()}.")
        try:
            run_mmdebstrap(as_root, target, tag)
            on_progress("Importing it into Docker.")
            excludes = [f"--exclude={pattern}" for pattern in EXCLUDED_PATHS]
            pack = ["tar", "-C", str(target), "--numeric-owner", *excludes, "-cf", "-", "."]
            with archive.open("wb") as out:
                subprocess.run([*as_root, *pack], check=True, stdout=out, stderr=subprocess.PIPE)
            with translate_docker_errors("Docker did not import the root file system"):
                repository, _, version = tag.partition(":")
                client.import_image_from_file(str(archive), repository=repository, tag=version)
        except subprocess.CalledProcessError as error:
            words = error.stderr.decode(errors="replace").strip()[-300:]
            raise SandboxUnavailable(
                f"The root file system could not be packed: {words}"
            ) from error
        finally:
            subprocess.run([*as_root, "rm", "-rf", "--one-file-system", str(target)], check=False)


def root_command_prefix(tag: str, *, path: str = SEARCH_PATH) -> list[str]:
    """The prefix that makes a command run as root: nothing, or `sudo -n`."""
    if not shutil.which("mmdebstrap", path=path):
        raise NoBaseImage("mmdebstrap is not installed", tag)
    if os.geteuid() == 0:
        return []
    sudo = [shutil.which("sudo") or "", "-n"]
    if sudo[0] and not subprocess.run([*sudo, "true"], check=False, capture_output=True).returncode:
        return sudo
    raise NoBaseImage("mmdebstrap needs root", tag)


def run_mmdebstrap(as_root: list[str], target: Path, tag: str) -> None:
    program = shutil.which("mmdebstrap", path=SEARCH_PATH) or "mmdebstrap"
    options = ["--mode=root", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
    argv = [*as_root, program, *options, SUITE, str(target), debian_mirror()]
    try:
        done = subprocess.run(argv, check=False, capture_output=True, timeout=900)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoBaseImage(str(error), tag) from error
    if done.returncode:
        tail = " ".join(done.stderr.decode(errors="replace").split())[-300:]
        raise NoBaseImage(f"mmdebstrap failed ({tail})", tag)


def debian_mirror(apt: Path = Path("/etc/apt")) -> str:
    """The Debian mirror of the host's own apt, else the default one."""
    for file in (apt / "sources.list", *sorted(apt.glob("sources.list.d/*"))):
        if file.is_file() and file.suffix in {".list", ".sources"}:
            # One line, `deb [OPTIONS] URL …`, or the format of deb822.
            lines = [line.split() for line in file.read_text(errors="replace").splitlines()]
            for words in lines:
                for word in words[1:] if words[:1] in (["deb"], ["URIs:"]) else ():
                    if re.fullmatch(r"https?://\S+/debian/?", word):
                        return word
    return DEFAULT_MIRROR
