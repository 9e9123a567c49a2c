"""Writes and safely reads `run.tar.zst`, the record of a run."""

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, Final, cast

import zstandard

FORMAT = 2
MANIFEST = "manifest.json"


def write_bundle(
    path: Path, store: Path, *, facts: Mapping[str, object], extra: Mapping[str, bytes]
) -> None:
    """Pack the documents of a `DirStore` at `store` atomically.

    `manifest.json` comes first: the format, our version, `facts`, and the SHA-256 of every other
    file. Documents lie under `store/`, `extra` beside it. The same content makes the same bytes.
    """
    pack_bundle(
        path,
        {
            file.relative_to(store).as_posix(): file.read_bytes()
            for file in sorted(store.rglob("*.json"))
            if not file.name.startswith(".")
        },
        facts=facts,
        extra=extra,
    )


def pack_bundle(
    path: Path,
    documents: Mapping[str, bytes],
    *,
    facts: Mapping[str, object],
    extra: Mapping[str, bytes],
) -> None:
    """As `write_bundle`, with the documents in memory, by their names in the store and `.json`."""
    files = {**extra, **{f"store/{name}": data for name, data in documents.items()}}
    manifest = {
        "format": FORMAT,
        "capuchin": version("capuchin-bot"),
        **facts,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())},
    }
    text = json.dumps(manifest, indent=1, sort_keys=True).encode()
    scratch = path.with_name(f".{path.name}.tmp")
    with (
        scratch.open("wb") as raw,
        zstandard.ZstdCompressor(level=10).stream_writer(raw) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, data in [(MANIFEST, text), *sorted(files.items())]:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    scratch.replace(path)


LARGEST_DOCUMENT: Final = 64 * 1024 * 1024
LARGEST: Final = 512 * 1024 * 1024
"""Bytes of all documents together, unpacked."""
MOST_DOCUMENTS: Final = 100_000
_NAME: Final = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*")


class BadBundle(Exception):
    """It is not one of our bundles, or is damaged; `str(error)` is a sentence. May quote it."""


@dataclass(frozen=True)
class Bundle:
    """Documents in memory; nothing of them is ever written to a path that they name."""

    manifest: Mapping[str, Any]
    files: Mapping[str, bytes]

    @property
    def documents(self) -> Mapping[str, bytes]:
        return {
            name.removeprefix("store/"): data
            for name, data in self.files.items()
            if name.startswith("store/")
        }


def read_bundle(path: Path) -> Bundle:
    """The bundle at `path`.

    Raises:
        BadBundle: it cannot be read, is not whole, holds what a bundle never does, or is too large.
    """
    try:
        files = _unpack(path)
    except (tarfile.TarError, zstandard.ZstdError, EOFError):
        raise BadBundle(
            f"{path} is not a whole bundle: it is damaged, or something else."
        ) from None
    except OSError as error:
        raise BadBundle(f"{path} cannot be read: {error.strerror}.") from None
    manifest = _parse_manifest(path, files.pop(MANIFEST, b""))
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    if digests != manifest.get("files"):
        raise BadBundle(f"{path} is damaged: its files are not those that its manifest names.")
    return Bundle(manifest, files)


def _unpack(path: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    left = LARGEST
    with (
        path.open("rb") as raw,
        # Bytes of memory that the compressed stream may ask for.
        zstandard.ZstdDecompressor(max_window_size=128 * 1024 * 1024).stream_reader(raw) as packed,
    ):
        while (member := _read_header(path, packed)) is not None:
            name, size = member
            if not _NAME.fullmatch(name) or name in found:
                raise BadBundle(f"{path} holds {name[:80]!r}, which no bundle does.")
            left -= size
            if size > LARGEST_DOCUMENT or left < 0 or len(found) >= MOST_DOCUMENTS:
                raise BadBundle(f"{path} is larger than a bundle may be.")
            found[name] = _read_body(packed, size)
    return found


def _read_header(path: Path, packed: IO[bytes]) -> tuple[str, int] | None:
    """Name and size of the next document; None at the end.

    `tarfile` itself reads extension headers of any size into memory.
    """
    name = ""
    while True:
        block = packed.read(tarfile.BLOCKSIZE)
        if not block.strip(b"\0"):
            return None
        info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        if info.size < 0:
            raise tarfile.HeaderError
        if info.isreg():
            return name or info.name, info.size
        if info.type != tarfile.XHDTYPE or name:
            raise BadBundle(f"{path} holds {info.name[:80]!r}, which no bundle does.")
        # Bytes of an extension header, which holds one name.
        if info.size > 64 * 1024:
            raise BadBundle(f"{path} is larger than a bundle may be.")
        name = _parse_long_name(_read_body(packed, info.size))


def _parse_long_name(extension: bytes) -> str:
    """The name in a pax header, which the format has for names of more than 100 characters."""
    found = re.search(rb"\A\d{1,6} path=([^\n]*)\n\Z", extension)
    if found is None:
        raise tarfile.HeaderError
    return found[1].decode("utf-8", "surrogateescape")


def _read_body(packed: IO[bytes], size: int) -> bytes:
    """What follows a header; the format fills it up to whole blocks."""
    data = packed.read(size + -size % tarfile.BLOCKSIZE)
    if len(data) < size:
        raise EOFError
    return data[:size]


def _parse_manifest(path: Path, data: bytes) -> dict[str, Any]:
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError):
        raise BadBundle(f"{path} is not a bundle: it has no readable {MANIFEST}.") from None
    known = cast("dict[str, Any]", manifest) if isinstance(manifest, dict) else {}
    found = known.get("format")
    if type(found) is not int:
        raise BadBundle(f"{path} is not a bundle: its {MANIFEST} names no format.")
    if found != FORMAT:
        raise BadBundle(
            f"{path} is a bundle of format {found}, and this Capuchin reads only format {FORMAT}: "
            f"{_advice(found)}."
        )
    return known


def _advice(found: int) -> str:
    if found > FORMAT:
        return "use a newer Capuchin"
    return "use the version of Capuchin that its manifest names"
