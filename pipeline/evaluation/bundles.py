"""Reads what finished runs left: run folders and `run.tar.zst` bundles."""

from __future__ import annotations

import asyncio
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import zstandard
from pydantic import BaseModel, ValidationError

from pipeline.evaluation.dataset import BadData
from pipeline.generation.editing import EditingState
from pipeline.selection.voting import vote
from pipeline.types import Candidate, Issue, VoteTable
from sandbox.base import Execution

_BUNDLE = "run.tar.zst"
_LARGEST_DOCUMENT = 256 * 1024 * 1024
"""Bytes; a document of a run is nowhere near."""

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class FinishedRun:
    """One run on one instance."""

    instance: str
    """The name of the run's folder, or of its bundle."""
    issue: str
    """Title and body, empty where they were not kept."""
    candidates: tuple[Candidate, ...]
    table: VoteTable | None
    """None when the votes were not counted to the end."""


class _Documents:
    """A store over documents in memory."""

    def __init__(self, documents: Mapping[str, bytes]) -> None:
        self._documents = documents

    async def load(self, key: str, kind: type[M]) -> M | None:
        try:
            return kind.model_validate_json(self._documents[f"{key}.json"])
        except (KeyError, ValidationError):
            return None

    async def save(self, key: str, value: BaseModel) -> None:
        raise AssertionError(f"nothing is executed, so {key} cannot be new: {value!r:.80}")


class _NotRun(Exception):
    """A result that the run did not get to would be needed."""


class _Nothing:
    """A sandbox in which nothing is run."""

    async def run_script(
        self, script: str, *, diffs: Sequence[str] = (), seconds: float | None = None
    ) -> Execution:
        raise _NotRun(script, diffs, seconds)

    async def run_command(
        self,
        argv: Sequence[str],
        *,
        diffs: Sequence[str] = (),
        seconds: float | None = None,
        output_bytes: int | None = None,
    ) -> Execution:
        raise _NotRun(argv, diffs, seconds, output_bytes)


async def read_runs(folder: Path) -> list[FinishedRun]:
    """Every run in `folder`: `NAME.tar.zst`, `NAME/run.tar.zst`, or a folder `NAME/run`.

    Raises:
        BadData: there is no run, or a bundle is broken.
    """
    found = [
        await _run(entry.name.removesuffix(".tar.zst"), documents)
        for entry in await asyncio.to_thread(_entries, folder)
        if (documents := await asyncio.to_thread(_documents, entry)) is not None
    ]
    if not found:
        raise BadData(f"{folder} holds no run: neither {_BUNDLE} nor a run's folder.")
    return found


def _entries(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise BadData(f"{folder} is no folder.")
    return sorted(folder.iterdir())


def _documents(entry: Path) -> dict[str, bytes] | None:
    if entry.is_file():
        return _unpacked(entry) if entry.name.endswith(".tar.zst") else None
    if (entry / _BUNDLE).is_file():
        return _unpacked(entry / _BUNDLE)
    store = entry / "run"
    if not store.is_dir():
        return None
    files = (file for file in store.rglob("*.json") if not file.name.startswith("."))
    return {file.relative_to(store).as_posix(): file.read_bytes() for file in files}


def _unpacked(path: Path) -> dict[str, bytes]:
    """The documents of a bundle by the store's names, and its `issue.json`."""
    found: dict[str, bytes] = {}
    try:
        with (
            path.open("rb") as raw,
            zstandard.ZstdDecompressor().stream_reader(raw) as packed,
            tarfile.open(fileobj=packed, mode="r|") as tar,
        ):
            for member in tar:
                if member.size > _LARGEST_DOCUMENT:
                    raise BadData(f"{path}: {member.name[:80]!r} is too large.")
                file = tar.extractfile(member)
                if file is not None:
                    found[member.name.removeprefix("store/")] = file.read()
    except (tarfile.TarError, zstandard.ZstdError, EOFError):
        raise BadData(f"{path} is not a whole bundle.") from None
    except OSError as error:
        raise BadData(f"{path} cannot be read: {error.strerror}.") from None
    return found


async def _run(name: str, documents: Mapping[str, bytes]) -> FinishedRun:
    store = _Documents(documents)
    samples = sorted(
        int(key[8:-5])
        for key in documents
        if key.startswith("editing/") and key[8:-5].isdecimal() and key.endswith(".json")
    )
    candidates: list[Candidate] = []
    for sample in samples:
        state = await store.load(f"editing/{sample}", EditingState)
        if state and (candidate := state.candidate(sample)):
            candidates.append(candidate)
    try:
        table = await vote(candidates, sandbox=_Nothing(), store=store, seconds=1)
    except _NotRun:
        table = None
    issue = await store.load("issue", Issue)
    text = f"{issue.title}\n{issue.body}" if issue else ""
    return FinishedRun(name, text, tuple(candidates), table)
