"""Sorts the entries of a commit into source files and others, with the reason."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from pipeline.codebase.commit import SUBMODULE, Codebase
from pipeline.codebase.text import Globs, decode_text
from pipeline.context.files.cache import ContentCache, run_with_cache
from pipeline.context.files.chunks import Piece, Span, build_pieces, find_cuts
from pipeline.context.files.filters import (
    Attributes,
    SkipReason,
    is_python,
    read_attributes,
    reason_from_content,
    reasons_from_name,
)
from pipeline.context.tokens import ESTIMATOR, CountUnavailable, TokenCounter, estimate_tokens
from pipeline.data.code_places import SourceFile
from pipeline.edits.patches import check_guarded
from pipeline.languages.conventions import is_test
from pipeline.languages.registry import main_language


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

    def keep_code(self) -> "Sources":
        """The main language's files outside its tests; all where there are none."""
        suffixes = main_language(self.codebase).facts.suffixes
        code = tuple(f for f in self.files if f.path.endswith(suffixes) and not f.test)
        return dataclasses.replace(self, files=code) if code else self

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
        # Bytes of content that are read from git, and held, at a time.
        if chunk and size + file.size > 4_000_000:
            yield chunk
            chunk, size = [], 0
        chunk.append(file)
        size += file.size
    if chunk:
        yield chunk


def _with_text(source: Source, data: bytes) -> SourceFile:
    text = decode_text(source.path, data)
    return SourceFile(path=source.path, text=text.text if text else "", tokens=source.tokens)


MAX_BYTES = 2_000_000
"""Bytes; larger files are not read, only listed as left out."""
_CONTENT_REASONS: tuple[SkipReason, ...] = (
    "binary", "empty", "generated", "LFS pointer", "minified",
)  # fmt: skip
_TOPIC = "facts 1"
"""Change it whenever the same content would be judged or counted differently."""


async def find_sources(codebase: Codebase, excluded: Sequence[str] = ()) -> Sources:
    """The source files of `codebase`, and all other entries with the reason for leaving them out.

    `excluded`: globs of the settings file, as `pipeline.codebase.text.Globs` reads them.

    Contents that an earlier call judged, for any commit or issue, are not read again.

    Raises:
        GitFailed: the repository is damaged.
    """
    regular = [file for file in codebase.files.values() if file.regular]
    attributes = await read_attributes(codebase, regular)
    wanted, skipped = await asyncio.to_thread(_filter_by_name, codebase, attributes, excluded)
    facts = await run_with_cache(codebase.git_dir, partial(_load_facts, codebase, wanted))
    return await asyncio.to_thread(_filter_by_content, codebase, attributes, wanted, skipped, facts)


def _filter_by_name(
    codebase: Codebase, attributes: Mapping[str, Attributes], excluded: Sequence[str]
) -> tuple[list[Source], list[SkippedFile]]:
    """The files whose content must decide, and those that are left out by name already."""
    exclude = Globs(excluded)
    wanted: list[Source] = []
    skipped = [SkippedFile(entry.path, "unreadable name") for entry in codebase.skipped]
    for file in codebase.files.values():
        why: SkipReason | None = None
        if not file.regular:
            why = "submodule" if file.mode == SUBMODULE else "symbolic link"
        elif exclude.first_match(file.path):
            why = "excluded"
        elif check_guarded(file.path):
            why = "may not change"
        why = why or _name_reason(file.path, attributes.get(file.path, {}))
        if why is None and file.size > MAX_BYTES:
            why = "too large"
        if why is None:
            wanted.append(Source(file.path, file.blob, file.size, 0, is_test(file.path)))
        else:
            skipped.append(SkippedFile(file.path, why))
    return wanted, skipped


def _filter_by_content(
    codebase: Codebase,
    attributes: Mapping[str, Attributes],
    wanted: Iterable[Source],
    skipped: list[SkippedFile],
    facts: "Mapping[ContentKey, str]",
) -> Sources:
    files: list[Source] = []
    for file in wanted:
        tokens, _, stated = facts[(file.blob, is_python(file.path))].partition(" ")
        why = _content_reason(stated, attributes.get(file.path, {}))
        if why is None:
            files.append(Source(file.path, file.blob, file.size, int(tokens), file.test))
        else:
            skipped.append(SkippedFile(file.path, why))
    files.sort(key=lambda file: (not is_python(file.path), file.path))
    return Sources(tuple(files), tuple(sorted(skipped, key=lambda e: e.path)), codebase)


def _name_reason(path: str, attributes: Attributes) -> SkipReason | None:
    """A reason from the attributes, else from the name unless the attributes deny it."""
    stated: list[SkipReason] = [why for why, holds in attributes.items() if holds]
    guesses: list[SkipReason] = [why for why in reasons_from_name(path) if why not in attributes]
    return next(iter((*stated, *guesses)), None)


def _content_reason(stated: str, attributes: Attributes) -> SkipReason | None:
    """The cached reason, unless the attributes deny it."""
    why = next(filter(stated.__eq__, _CONTENT_REASONS), None)
    denied = why in ("generated", "minified") and attributes.get("generated") is False
    return None if denied else why


ContentKey = tuple[str, bool]
"""A blob, and whether to read it as Python: only Python files declare their encoding."""


async def _load_facts(
    codebase: Codebase, files: Sequence[Source], cache: ContentCache
) -> dict[ContentKey, str]:
    """`TOKENS WHY` of each content, WHY empty for source."""
    facts: dict[ContentKey, str] = {}
    for python in (True, False):
        some = {file.blob: file for file in files if is_python(file.path) == python}
        topic = f"{_TOPIC} {'python' if python else 'other'}"
        known = await asyncio.to_thread(cache.get, topic, some)
        for chunk in batches([file for blob, file in some.items() if blob not in known]):
            contents = await codebase.read_all(file.path for file in chunk)
            judged = await asyncio.to_thread(_judge, chunk, contents)
            await asyncio.to_thread(cache.put, topic, judged.items())
            known.update(judged)
        facts.update({(blob, python): fact for blob, fact in known.items()})
    return facts


def _judge(chunk: Iterable[Source], contents: Mapping[str, bytes]) -> dict[str, str]:
    judged: dict[str, str] = {}
    for file in chunk:
        text = decode_text(file.path, contents[file.path])
        why = "binary" if text is None else reason_from_content(text.text) or ""
        tokens = 0 if text is None else estimate_tokens(text.text)
        judged[file.blob] = f"{tokens} {why}"
    return judged
