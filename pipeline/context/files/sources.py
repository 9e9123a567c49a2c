"""The source files of a codebase, the files left out with the reason, and texts on demand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from pipeline.codebase.commit import Codebase
from pipeline.codebase.text import decode_text
from pipeline.context.files.cache import ContentCache, run_with_cache
from pipeline.context.files.chunks import Piece, Span, build_pieces, find_cuts
from pipeline.context.files.filters import SkipReason
from pipeline.context.tokens import ESTIMATOR, CountUnavailable, TokenCounter
from pipeline.types import SourceFile

_CHUNK_BYTES = 4_000_000
"""Bytes of content that are read from git, and held, at a time."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file that is worth reading. Its text is not held: see `Sources.read` and `stream`."""

    path: str
    blob: str
    """The git blob id: equal contents have equal ids."""
    size: int
    """Bytes."""
    tokens: int
    """By `pipeline.context.tokens.estimate_tokens`: rather too high."""
    test: bool


@dataclass(frozen=True, slots=True)
class SkippedFile:
    path: str
    """Bytes that are not UTF-8 are escaped with backslashes. Untrusted."""
    why: SkipReason


@dataclass(frozen=True)
class Sources:
    files: tuple[Source, ...]
    """Python first, then by path."""
    skipped: tuple[SkippedFile, ...]
    """All other entries of the tree, sorted by path."""
    codebase: Codebase

    @cached_property
    def by_path(self) -> dict[str, Source]:
        return {file.path: file for file in self.files}

    async def read(self, path: str) -> SourceFile:
        """One file with its text.

        Raises:
            KeyError: `path` is not among `files`.
        """
        source = self.by_path[path]
        return _with_text(source, await self.codebase.read(path))

    async def stream(self, files: Iterable[Source] | None = None) -> AsyncIterator[SourceFile]:
        """These files (all, when None) in order with their texts, a few MB in memory at a time."""
        for chunk in batches(self.files if files is None else files):
            contents = await self.codebase.read_all(file.path for file in chunk)
            for file in chunk:
                yield _with_text(file, contents.pop(file.path))

    async def split(self, path: str, window: int) -> tuple[Piece, ...]:
        """The file in pieces of at most `window` tokens; one piece if it fits.

        See `pipeline.context.files.chunks`; the cuts are cached by content.

        Raises:
            KeyError: `path` is not among `files`.
            ValueError: `window` is less than 100.
        """
        file = await self.read(path)
        blob, suffix = self.by_path[path].blob, path.rpartition(".")[2].lower()
        topic = f"cuts 2 {suffix} {window}"

        async def work(cache: ContentCache) -> tuple[Piece, ...]:
            cached = await asyncio.to_thread(cache.get, topic, [blob])
            if blob in cached:
                return build_pieces(file, [Span(*span) for span in json.loads(cached[blob])])
            found = await asyncio.to_thread(find_cuts, file, window)
            await asyncio.to_thread(cache.put, topic, [(blob, json.dumps(found))])
            return build_pieces(file, found)

        return await run_with_cache(self.codebase.git_dir, work)

    async def count_tokens(self, paths: Sequence[str], counter: TokenCounter) -> dict[str, int]:
        """The tokens of these files by `counter`, each content counted once for all issues.

        If the counter fails, the remaining files get their estimate.

        Raises:
            KeyError: a path is not among `files`.
        """
        wanted = [self.by_path[path] for path in paths]
        if counter.name == ESTIMATOR.name:
            return {file.path: file.tokens for file in wanted}
        topic = f"tokens {counter.name}"

        async def work(cache: ContentCache) -> dict[str, int]:
            known = await asyncio.to_thread(cache.get, topic, [file.blob for file in wanted])
            new = list({f.blob: f for f in wanted if f.blob not in known}.values())
            for chunk in batches(new):
                texts = [file.text async for file in self.stream(chunk)]
                try:
                    counts = await counter.count(texts)
                except CountUnavailable:
                    break
                added = {f.blob: str(n) for f, n in zip(chunk, counts, strict=True)}
                await asyncio.to_thread(cache.put, topic, added.items())
                known.update(added)
            return {f.path: int(known.get(f.blob, f.tokens)) for f in wanted}

        return await run_with_cache(self.codebase.git_dir, work)


def batches(files: Iterable[Source]) -> Iterable[list[Source]]:
    """The files in groups of a few MB."""
    chunk: list[Source] = []
    size = 0
    for file in files:
        if chunk and size + file.size > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(file)
        size += file.size
    if chunk:
        yield chunk


def _with_text(source: Source, data: bytes) -> SourceFile:
    text = decode_text(source.path, data)
    return SourceFile(path=source.path, text=text.text if text else "", tokens=source.tokens)
