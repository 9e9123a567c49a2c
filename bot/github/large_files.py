"""Files of Git LFS, by its batch API.

https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md
"""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import httpx
from pydantic import AliasPath, BaseModel, Field, ValidationError

from pipeline.codebase.commit import LARGEST_FILE

MOST_LARGE_BYTES: Final = 500_000_000
"""Of all files of a commit and its submodules together."""
_BATCH: Final = 100
_JSON: Final = "application/vnd.git-lfs+json"


class _Download(BaseModel):
    href: str
    header: dict[str, str] = {}


class _Object(BaseModel):
    oid: str
    download: _Download | None = Field(
        default=None, validation_alias=AliasPath("actions", "download")
    )


class _Answer(BaseModel):
    objects: list[_Object]


async def fetch_large_files(
    repository: str,
    token: Callable[[], Awaitable[str]] | None,
    wanted: Mapping[str, int],
    folder: Path,
    left: int = MOST_LARGE_BYTES,
) -> int:
    """Put those of `wanted`, sizes by SHA-256, that the service gives into `folder`.

    `repository` is its address. What is missing, too large or not what its name says stays absent.
    Returns how many of the bytes `left` may still be asked for.
    """
    due = dict[str, int]()
    for oid, size in wanted.items():
        if size <= min(left, LARGEST_FILE) and not (folder / oid).is_file():
            due[oid], left = size, left - size
    if not due:
        return left
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    names = list(due)
    # Not compressed: a small answer could become a huge one.
    async with httpx.AsyncClient(timeout=60, headers={"Accept-Encoding": "identity"}) as client:
        for first in range(0, len(names), _BATCH):
            batch = [{"oid": oid, "size": due[oid]} for oid in names[first : first + _BATCH]]
            try:
                answer = await client.post(
                    f"{repository}/info/lfs/objects/batch",
                    auth=("x-access-token", await token()) if token else httpx.USE_CLIENT_DEFAULT,
                    headers={"Accept": _JSON, "Content-Type": _JSON},
                    json={"operation": "download", "transfers": ["basic"], "objects": batch},
                )
                found = _Answer.model_validate_json(answer.content).objects
            except (httpx.HTTPError, ValidationError):
                break
            for one in found:
                if one.download and one.oid in due:
                    await _download(client, one.download, folder / one.oid, due[one.oid])
    return left


async def _download(client: httpx.AsyncClient, action: _Download, place: Path, size: int) -> None:
    """Keep the file if it has the size and the SHA-256 that its name says."""
    seen, left = hashlib.sha256(), size
    fd, scratch = tempfile.mkstemp(dir=place.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            async with client.stream("GET", action.href, headers=action.header) as answer:
                async for part in answer.aiter_raw():
                    left -= len(part)
                    if left < 0:
                        return
                    seen.update(part)
                    file.write(part)
        if not left and seen.hexdigest() == place.name:
            await asyncio.to_thread(os.replace, scratch, place)
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError):
        return
    finally:
        await asyncio.to_thread(Path(scratch).unlink, missing_ok=True)
