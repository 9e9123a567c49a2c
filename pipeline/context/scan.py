"""Asks the scout about every file: as many parallel requests as its server takes, none twice."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing

from pydantic import ValidationError

from pipeline.concurrency import gather_all, gather_bounded
from pipeline.context.files.cache import ContentCache, run_with_cache
from pipeline.context.files.chunks import SMALLEST, Piece, split_file
from pipeline.context.files.sources import Source, Sources
from pipeline.context.scout import (
    PROMPT,
    RelevanceReader,
    RelevanceVerdict,
    merge_verdicts,
    unknown_verdict,
)
from pipeline.context.tokens import ESTIMATOR, TokenCounter
from pipeline.data.types import Issue
from pipeline.models.base import Model, ModelUnavailable
from pipeline.store import Store, digest

OnScanProgress = Callable[[int, int], Awaitable[None]]
"""Called with how many files have a verdict, and how many there are."""

_CONCURRENCY = 256
"""The most parallel requests; the model's concurrency window decides how many are really sent."""
_NEAR = 0.3
"""Estimates this close to the scout's window, as a share of it, are counted exactly."""


async def scan(
    sources: Sources,
    files: Sequence[Source],
    issue: Issue,
    *,
    scout: Model,
    store: Store,
    on_progress: OnScanProgress | None = None,
    counter: TokenCounter = ESTIMATOR,
) -> list[RelevanceVerdict]:
    """A verdict on each of `files`, in order; all are among `sources`.

    Verdicts are cached by prompt, model, issue, path and content: at once in `store`, under
    `context/relevance/`, so that a run resumes after a crash; and in the mirror's cache for later
    runs of the same issue. `counter` decides whether a file whose estimate is near the scout's
    window fits. The first request runs alone, so that the shared prefix is cached once.

    Raises:
        ModelUnavailable: the scout is down. If it fails at one file but serves others, that file
            is `unknown`.
        ModelError: another model failure.
        BudgetSpent: the ceiling is reached.
    """
    reader = RelevanceReader(scout, issue)
    work = _Scan(sources, files, reader, store, on_progress, counter)
    asked = (str(PROMPT), scout.profile.name, f"{reader.room}", issue.model_dump_json())
    return await work.run(digest(*asked))


class _Scan:
    def __init__(
        self,
        sources: Sources,
        files: Sequence[Source],
        reader: RelevanceReader,
        store: Store,
        on_progress: OnScanProgress | None,
        counter: TokenCounter,
    ) -> None:
        self._sources = sources
        self._files = files
        self._reader = reader
        self._store = store
        self._on_progress = on_progress
        self._counter = counter
        self._windows: dict[str, int] = {}
        """Estimated tokens of the files that were counted exactly."""
        self._verdicts: dict[str, RelevanceVerdict] = {}
        self._parts: dict[str, dict[int, RelevanceVerdict]] = {}
        self._uncached: list[tuple[str, str]] = []
        self._topic = ""

    async def run(self, asked: str) -> list[RelevanceVerdict]:
        self._topic = f"verdict {asked}"
        await self._load_known()
        missing = [file for file in self._files if file.path not in self._verdicts]
        await self._report_progress()
        await self._measure(missing)
        async with aclosing(self._stream_questions(missing)) as questions:
            one_at_a_time = asyncio.Lock()

            async def worker() -> None:
                while (piece := await _take_next(questions, one_at_a_time)) is not None:
                    await self._ask(piece)

            try:
                piece = await _take_next(questions, one_at_a_time)
                if piece is not None:
                    await self._ask(piece)
                    await gather_all(worker() for _ in range(_CONCURRENCY))
            finally:
                await self._flush()
        return [self._verdicts[file.path] for file in self._files]

    async def _load_known(self) -> None:
        """The verdicts of earlier runs and of earlier starts of this run."""
        names = {self._name(file): file for file in self._files}

        async def look(cache: ContentCache) -> dict[str, str]:
            return await asyncio.to_thread(cache.get, self._topic, names)

        for name, text in (await run_with_cache(self._sources.codebase.git_dir, look)).items():
            try:
                self._verdicts[names[name].path] = RelevanceVerdict.model_validate_json(text)
            except ValidationError:
                continue
        rest = [file for file in self._files if file.path not in self._verdicts]
        loaded = await gather_bounded(16, (self._load(self._name(file)) for file in rest))
        found = {f.path: v for f, v in zip(rest, loaded, strict=True) if v is not None}
        self._verdicts.update(found)

    async def _load(self, name: str) -> RelevanceVerdict | None:
        return await self._store.load(f"context/relevance/{name}", RelevanceVerdict)

    def _name(self, file: Source, piece: Piece | None = None) -> str:
        part = ""
        if piece is not None and piece.of > 1:
            part = f"{piece.number}/{piece.of} {piece.first}-{piece.last}"
        return digest(self._topic, file.path, file.blob, part)

    async def _stream_questions(self, files: Sequence[Source]) -> AsyncGenerator[Piece]:
        async for file in self._sources.stream(files):
            window = self._windows.get(file.path, self._reader.room)
            if file.tokens <= window:
                yield split_file(file, window)[0]
                continue
            for piece in await self._sources.split(file.path, window):
                yield piece

    async def _measure(self, files: Sequence[Source]) -> None:
        """Count the files whose estimate does not show whether they fit."""
        room = self._reader.room
        if self._counter.name == ESTIMATOR.name:
            return
        near = [file for file in files if abs(file.tokens - room) <= _NEAR * room]
        near = sorted(near, key=lambda file: abs(file.tokens - room))[:500]
        exact = await self._sources.count_tokens([file.path for file in near], self._counter)
        for file in near:
            if exact[file.path] <= room:
                self._windows[file.path] = max(room, file.tokens)
            elif file.tokens <= room:
                self._windows[file.path] = max(SMALLEST, room * file.tokens // exact[file.path] - 1)

    async def _ask(self, piece: Piece) -> None:
        file = self._sources.by_path[piece.path]
        name = self._name(file, piece)
        verdict = await self._load(name) if piece.of > 1 else None
        if verdict is None:
            verdict = await self._read_piece(piece)
            await self._store.save(f"context/relevance/{name}", verdict)
        parts = self._parts.setdefault(piece.path, {})
        parts[piece.number] = verdict
        if len(parts) < piece.of:
            return
        del self._parts[piece.path]
        whole = merge_verdicts([parts[number] for number in sorted(parts)])
        if piece.of > 1:
            await self._store.save(f"context/relevance/{self._name(file)}", whole)
        await self._keep(file, whole)

    async def _read_piece(self, piece: Piece) -> RelevanceVerdict:
        try:
            return await self._reader.read(piece)
        except ModelUnavailable:
            if not await self._reader.is_available():
                raise
            # The server fails at this file alone; do not let it hold up the others.
            return unknown_verdict(piece)

    async def _keep(self, file: Source, verdict: RelevanceVerdict) -> None:
        self._verdicts[file.path] = verdict
        if verdict.answer != "unknown":  # another run may have better luck
            self._uncached.append((self._name(file), verdict.model_dump_json()))
        if len(self._uncached) >= 64:
            await self._flush()
        await self._report_progress()

    async def _flush(self) -> None:
        notes, self._uncached = self._uncached, []
        if not notes:
            return

        async def put(cache: ContentCache) -> None:
            await asyncio.to_thread(cache.put, self._topic, notes)

        await run_with_cache(self._sources.codebase.git_dir, put)

    async def _report_progress(self) -> None:
        """Report each per cent."""
        done, total = len(self._verdicts), len(self._files)
        if self._on_progress and (done == total or done % max(1, total // 100) == 0):
            await self._on_progress(done, total)


async def _take_next(questions: AsyncIterator[Piece], lock: asyncio.Lock) -> Piece | None:
    async with lock:
        return await anext(questions, None)
