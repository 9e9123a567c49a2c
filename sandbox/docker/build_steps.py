"""The shell lines of a build, the files that go in, the record read back, and the disk limit."""

import hashlib
import io
import os
import re
import shlex
import ssl
import struct
import tarfile
import tempfile
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Final, NamedTuple, cast

import docker
from docker.errors import DockerException, NotFound

from sandbox.docker.cold_execution import remove_container
from sandbox.environment.build_options import INCOMING, BuildOptions
from sandbox.environment.recipe import MAX_BYTES, Installation, parse_installation
from sandbox.errors import SandboxUnavailable
from sandbox.guest.image.install_packages import NOT_INSTALLED
from sandbox.layout import CHECKOUT, ENVIRONMENT, HOME, KEPT_HOME, SYSTEM_PYTHON, TREE, UID
from sandbox.program import Limits
from sandbox.tree import Archive, Tree

LAYOUT = "10"
"""Raised when images are built in another way, so that old images are not found as new ones."""
BUILD_LIMITS = Limits(seconds=2400, memory_mb=4096, cpus=2, processes=512)
"""Of processor time: a busy machine must not mean other packages."""
BUILD_WALL: Final = 3600.0
"""Seconds for a build that waits, as for a network."""

UNPACK = (
    f"tar -xf {INCOMING}/tree.tar -C {CHECKOUT} --no-same-owner --anchored --exclude=.git",
    # Not before 1980, which a wheel cannot hold, and long past: for an edit of the same size that
    # was made in the second of the unpacking, Python took the unedited file's compiled code.
    f"find {CHECKOUT} -mindepth 1 -exec touch -h -d @1000000000 {{}} +",
    f"rm {INCOMING}/tree.tar; touch {INCOMING}/begun",
)
# What a build leaves at home is there when tests run: wrappers and package managers keep at home
# what they download.
USE_HOME = (
    f"mkdir -p {KEPT_HOME} && rmdir {HOME} && ln -s {KEPT_HOME} {HOME} || true; "
    f"cat {NOT_INSTALLED} 2>/dev/null || true"
)
_CACHES = " ".join(f"{KEPT_HOME}/{name}" for name in (".npm", ".cache/pip", ".cache/uv"))
_KEEP_HOME = f"rm -rf {_CACHES}; find {KEPT_HOME} -depth -type d -empty -delete 2>/dev/null || true"
CLEAN_TMP = "find /tmp -mindepth 1 -delete 2>/dev/null || true"
CLEAN_UP = (f"rm -f {INCOMING}/*", _KEEP_HOME, CLEAN_TMP)
_UV = "/opt/tools/uv/bin/uv"
_EDITABLE = "list --editable --format=freeze | sed 's/==.*//' | xargs -r"
_PATHS = "import sysconfig; p = sysconfig.get_paths(); print(*{p['purelib'], p['platlib']})"
_LINKS = "\\( -name direct_url.json -o -name '*.egg-link' \\)"
"""What is editable has one of these files (PEP 610; setuptools' develop)."""
UNINSTALL = (
    # uv takes a hundredth of pip's time; the maintainers' own lines may do without it.
    f"if test -x {_UV}; then {_UV} pip {_EDITABLE} {_UV} pip uninstall; "
    f"""elif find $(python -c "{_PATHS}") {_LINKS} -print -quit | grep -q .; """
    f"then pip {_EDITABLE} pip uninstall --yes; fi",
    f"find {CHECKOUT} -mindepth 1 -delete || true",  # a step may have locked a folder
)
_COMPILE = "xargs -0 -r -n 100 -P 2 timeout 5m python -m compileall -q >/dev/null 2>&1 || true"
"""Compiles the files whose names it reads. One that does not compile does not matter."""


# Source of more than 2 MiB is data: compiling takes minutes and many times its size in memory.
# Hardly anybody imports the tests of a dependency, or of the hundreds of lexers that come with
# pytest more than it imports itself. What the layer below holds is compiled.
_PYTEST_LEXERS = "".join(
    f" ! -name {name}.py" for name in ("__init__", "_mapping", "diff", "python")
)
_LEFT_OUT = (
    " ! -path '*/tests/*' ! -path '*/test/*'"
    rf" ! \( -path '*/pygments/lexers/*'{_PYTEST_LEXERS} \)"
)
_INSTALLED = f"-name '*.py' ! -size +2M{_LEFT_OUT} -cnewer {INCOMING}/begun"
# uv leaves it to the first import. Nothing that an execution writes lasts: each would compile all
# that it imports.
COMPILE = f"""find $(python -c "{_PATHS}") {_INSTALLED} -print0 | {_COMPILE}"""
FINISH = (
    f"{SYSTEM_PYTHON} -I /opt/capuchin/list_sources.py {CHECKOUT} | {_COMPILE}",
    COMPILE,
    f"find {CHECKOUT} -mindepth 1 -maxdepth 1 -exec mv -t {TREE} {{}} +; rm -f {INCOMING}/*",
    _KEEP_HOME,
    CLEAN_TMP,
)
# The last step, when nothing that a build started still runs.
SEARCH_SECRETS = f"kill -9 -1; {SYSTEM_PYTHON} -I /opt/capuchin/find_secrets.py"
SPEAKING_STEPS = {
    f"{SYSTEM_PYTHON} -I /opt/capuchin/choose_python.py": 65,
    f"{SYSTEM_PYTHON} -I /opt/capuchin/install.py": 67,
}
"""Our own programs, each with the exit code for a failure that its last line of output explains."""
# What installers and builds leave is mounted as it is, however much it is.
_OUTPUTS = "--exclude=node_modules --exclude=target --exclude=build --exclude=.gocache"
MEASURE = f"test $(du -sm {_OUTPUTS} {TREE} | cut -f1) -le "
MEASURE_SECONDS: Final = 2.0
MOST_UNMEASURED_SECONDS: Final = 5.0
MOST_FILES: Final = 3_000_000
"""Files that all builds together may add while one runs; a large `node_modules` has 300,000."""


class DiskUse(NamedTuple):
    used_bytes: int
    files: int


def pack_incoming(files: Mapping[str, bytes], tree: Tree | None) -> Archive:
    """The files that a build needs, and the tree as `tree.tar`: the unprivileged user unpacks it
    in the container, so that no path can escape."""
    with tempfile.TemporaryFile() as file, tarfile.open(fileobj=file, mode="w") as archive:

        def add(name: str, size: int, data: IO[bytes]) -> None:
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.uid, member.gid = size, 0o600, UID, UID
            archive.addfile(member, data)

        if tree:
            with tree.tar.open() as tar:
                add("tree.tar", tree.tar.size_bytes, tar)
        for name, data in files.items():
            add(name, len(data), io.BytesIO(data))
        archive.close()
        return Archive(file)


_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


def make_trust_store(bundle: bytes) -> bytes:
    """The certificates of a PEM bundle as a JVM reads them: a key store of its own format (JKS)."""
    found = [ssl.PEM_cert_to_DER_cert(one) for one in _CERTIFICATE.findall(bundle.decode("latin"))]
    data = struct.pack(">III", 0xFEEDFEED, 2, len(found))
    for number, certificate in enumerate(found):
        alias = f"{number}".encode()
        data += struct.pack(f">IH{len(alias)}sQ", 2, len(alias), alias, 0)
        data += struct.pack(">H5sI", 5, b"X.509", len(certificate)) + certificate
    keyed = "changeit".encode("utf-16-be") + b"Mighty Aphrodite" + data
    return data + hashlib.sha1(keyed, usedforsecurity=False).digest()


RECORD: Final = f"{ENVIRONMENT}/capuchin-installation.json"


def read_record(client: docker.APIClient, container: str) -> Installation | None:
    """What the installer recorded in a container; the repository's code may have written there."""
    try:
        chunks, _ = client.get_archive(container, RECORD)
    except NotFound:
        return None
    data = bytearray()
    for chunk in cast(Iterator[bytes], chunks):
        data += chunk
        if len(data) > MAX_BYTES + 64 * 1024:
            return None
    try:
        with tarfile.open(fileobj=io.BytesIO(bytes(data))) as archive:
            member = archive.next()
            source = archive.extractfile(member) if member and member.isreg() else None
            return parse_installation(source.read()) if source else None
    except (tarfile.TarError, OSError):
        return None


def make_repository(tag: str) -> str:
    """The line that makes the checkout a git repository of one commit, with `tag` if there is one:
    scripts of an installation ask git for both."""
    person = "-c user.name=capuchin -c user.email=capuchin@localhost"
    named = f" && git tag {shlex.quote(tag)}" if tag else ""
    made = f"git init -q && git add -A && git {person} commit -qnm 'The commit of this tree'{named}"
    return f"({made}) >/dev/null 2>&1 || true"


REMOVE_REPOSITORY: Final = "rm -rf .git"


def explain_failure(
    line: str, end: Mapping[str, Any] | None, log: str, options: BuildOptions
) -> str | None:
    """What it means that one of our own steps failed; None for a step of the repository."""
    if line.startswith(MEASURE):
        return (
            f"The checkout, with what its installation wrote there, is larger than "
            f"{options.disk_mb // 2} MB (without node_modules, target and build)."
        )
    if line == SEARCH_SECRETS:
        return "The installation wrote a secret of the package index to disk, so it was discarded."
    for step, code in SPEAKING_STEPS.items():
        if line.startswith(step) and end and end.get("exit") == code:
            return log.strip().rpartition("\n")[2]
    return None


def build_problem(end: Mapping[str, Any] | None, state: Mapping[str, Any]) -> str | None:
    """What went wrong in a build that ended by itself, in a sentence; None for nothing."""
    if state.get("OOMKilled") or (end and end["oom"]):
        return f"The installation needed more than {BUILD_LIMITS.memory_mb} MB of memory."
    if end is None:
        raise SandboxUnavailable(
            f"The build container ended without a report (exit code {state.get('ExitCode')})."
        )
    if "signal" in end:
        return f"A step of the installation was killed by signal {end['signal']}."
    return (
        f"A step of the installation failed with exit code {end['exit']}." if end["exit"] else None
    )


def tool_images(base: str, lines: Iterable[str], *key: str) -> Iterator[tuple[str, str]]:
    """Each line with the image that it makes from the previous one."""
    known = repr((LAYOUT, base, key))
    for line in lines:
        known = repr((known, line))
        yield line, image_name("tools", known)


def image_name(kind: str, key: str) -> str:
    return f"capuchin/{kind}:{hashlib.sha256(key.encode()).hexdigest()[:24]}"


class BuildDisk:
    """The sum of what the containers of one build have written.

    Not every storage driver has a limit of its own, so a build that writes many files fast gets
    some way past this one. A single file is stopped at once (`create_build_container`).
    """

    def __init__(self, client: docker.APIClient, *, max_mb: int) -> None:
        self.over = ""
        """What the build wrote too much of, for a sentence; empty while it did not."""
        self._client = client
        self._max_mb = max_mb
        self._written: dict[str, int] = {}
        self._root = str(client.info().get("DockerRootDir") or "")
        self._first = self._last = self._read_disk()
        self._next = time.monotonic() + MEASURE_SECONDS

    def measure(self, *, force: bool = False, **filters: str) -> None:
        """Measure what the containers that match `filters` have written, if it is time again.

        `force` measures in any case, and includes containers that have ended.
        """
        begun, now = time.monotonic(), self._read_disk()
        if now.files - self._first.files > MOST_FILES:
            self.over = f"more than {MOST_FILES:,} files"
            return
        grew = now.used_bytes - self._last.used_bytes > self._max_mb * 250_000
        if begun < self._next and not grew and not force:
            return
        self._last = now
        listed = cast(
            list[dict[str, Any]], self._client.containers(all=force, size=True, filters=filters)
        )
        for container in listed:
            self._written[container["Id"]] = int(container.get("SizeRw") or 0)
        # The daemon counts every file: the build must not choose how seldom.
        took = time.monotonic() - begun
        self._next = begun + took + min(max(MEASURE_SECONDS, 20 * took), MOST_UNMEASURED_SECONDS)
        if sum(self._written.values()) > self._max_mb * 1_000_000:
            self.over = f"more than {self._max_mb} MB"

    def _read_disk(self) -> DiskUse:
        """What lies on the disk of the daemon's images, in constant time; 0 where it is not here.
        Other builds write there too."""
        try:
            disk = os.statvfs(self._root)
        except OSError:
            return DiskUse(0, 0)
        return DiskUse((disk.f_blocks - disk.f_bfree) * disk.f_frsize, disk.f_files - disk.f_ffree)


@contextmanager
def watch_disk(client: docker.APIClient, container: str, *, max_mb: int) -> Generator[BuildDisk]:
    """Remove `container` as soon as it has written more than `max_mb`."""
    watch = BuildDisk(client, max_mb=max_mb)
    ended = threading.Event()

    def measure_until_over() -> None:
        while not ended.wait(0.5):
            try:
                watch.measure(id=container)
            except (DockerException, OSError):
                continue  # the thread that waits for the container reports it
            if watch.over:
                remove_container(client, container)
                return

    worker = threading.Thread(target=measure_until_over, daemon=True)
    worker.start()
    try:
        yield watch
    finally:
        ended.set()
        worker.join()
