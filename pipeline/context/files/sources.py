"""Sorts all entries of a commit into source files and others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.codebase.commit import SUBMODULE, Codebase, File
from pipeline.codebase.conventions import is_test
from pipeline.codebase.globs import Globs
from pipeline.codebase.text import decode_text
from pipeline.context.files.cache import ContentCache, run_with_cache
from pipeline.context.files.filters import (
    SkipReason,
    is_python,
    reason_from_content,
    reasons_from_name,
)
from pipeline.context.files.gitattributes import Attributes, read_attributes
from pipeline.context.files.sources import SkippedFile, Source, Sources, batches
from pipeline.context.tokens import estimate_tokens

MAX_BYTES = 2_000_000
"""Bytes; larger files are not read, only listed as left out."""
_OVERRIDABLE = frozenset[SkipReason]({"vendored", "documentation", "data"})
"""Guesses from a name that `include` overrides."""
_DENIABLE = frozenset[SkipReason]({"generated", "minified"})
"""Guesses from a text that `.gitattributes` can deny by `-linguist-generated`."""
_TOPIC = "facts 1"
"""Change it whenever the same content would be judged or counted differently."""


@dataclass(frozen=True)
class Rules:
    """The globs in `.github/capuchin.yml`, as `pipeline.codebase.globs.Globs` reads them."""

    include: tuple[str, ...] = ()
    """The only files to read, even if they look vendored, documentation or data; empty: all."""
    exclude: tuple[str, ...] = ()


async def find_sources(codebase: Codebase, rules: Rules | None = None) -> Sources:
    """The source files of `codebase`, and all other entries with the reason for leaving them out.

    Contents that an earlier call judged, for any commit or issue, are not read again.

    Raises:
        GitFailed: the repository is damaged.
    """
    regular = [file for file in codebase.files.values() if file.regular]
    attributes = await read_attributes(codebase, regular)
    wanted, skipped = await asyncio.to_thread(
        _filter_by_name, codebase, attributes, rules or Rules()
    )

    async def work(cache: ContentCache) -> dict[ContentKey, str]:
        return await _load_facts(codebase, wanted, cache)

    facts = await run_with_cache(codebase.git_dir, work)
    return await asyncio.to_thread(_filter_by_content, codebase, attributes, wanted, skipped, facts)


def _filter_by_name(
    codebase: Codebase, attributes: Mapping[str, Attributes], rules: Rules
) -> tuple[list[Source], list[SkippedFile]]:
    """The files whose content must decide, and those that are left out by name already."""
    include, exclude = Globs(rules.include), Globs(rules.exclude)
    wanted: list[Source] = []
    skipped = [SkippedFile(entry.path, "unreadable name") for entry in codebase.skipped]
    for file in codebase.files.values():
        why = _kind_reason(file) or _rule_reason(file.path, include, exclude)
        why = why or _name_reason(
            file.path, attributes.get(file.path, {}), overridden=bool(include)
        )
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
    facts: Mapping[ContentKey, str],
) -> Sources:
    files: list[Source] = []
    for file in wanted:
        tokens, _, stated = facts[_content_key(file)].partition(" ")
        why = _content_reason(stated, attributes.get(file.path, {}))
        if why is None:
            files.append(Source(file.path, file.blob, file.size, int(tokens), file.test))
        else:
            skipped.append(SkippedFile(file.path, why))
    files.sort(key=lambda file: (not is_python(file.path), file.path))
    return Sources(tuple(files), tuple(sorted(skipped, key=lambda e: e.path)), codebase)


def _kind_reason(file: File) -> SkipReason | None:
    if file.mode == SUBMODULE:
        return "submodule"
    return None if file.regular else "symbolic link"


def _rule_reason(path: str, include: Globs, exclude: Globs) -> SkipReason | None:
    if exclude.first_match(path) or (include and not include.first_match(path)):
        return "excluded"
    return None


def _name_reason(path: str, attributes: Attributes, *, overridden: bool) -> SkipReason | None:
    """A reason from the attributes, else from the name unless the attributes deny it."""
    stated: list[SkipReason] = [why for why, holds in attributes.items() if holds]
    guesses: list[SkipReason] = [why for why in reasons_from_name(path) if why not in attributes]
    likely: list[SkipReason] = [why for why in guesses if not (overridden and why in _OVERRIDABLE)]
    return stated[0] if stated else likely[0] if likely else None


def _content_reason(stated: str, attributes: Attributes) -> SkipReason | None:
    """The cached reason, unless the attributes deny it."""
    why = _NAMES.get(stated)
    denied = why in _DENIABLE and attributes.get("generated") is False
    return None if denied else why


_NAMES: Mapping[str, SkipReason] = {
    "binary": "binary",
    "empty": "empty",
    "generated": "generated",
    "LFS pointer": "LFS pointer",
    "minified": "minified",
}


ContentKey = tuple[str, bool]
"""A blob, and whether to read it as Python: only Python files declare their encoding."""


def _content_key(file: Source) -> ContentKey:
    return file.blob, is_python(file.path)


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
