"""Goes through all entries of a commit and sorts out which are source."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.codebase.commit import SUBMODULE, Codebase, File
from pipeline.codebase.conventions import is_test
from pipeline.codebase.globs import Globs
from pipeline.codebase.text import decoded
from pipeline.context.files.cache import Shelf, on_shelf
from pipeline.context.files.filters import Why, by_content, by_name, is_python
from pipeline.context.files.gitattributes import Said, attributes_of
from pipeline.context.files.sources import LeftOut, Source, Sources, chunks
from pipeline.context.tokens import estimate

MAX_BYTES = 2_000_000
"""A larger file is not read, but it is named among what was left out."""
_LIFTED = frozenset[Why]({"vendored", "documentation", "data"})
"""Guesses from a name that give way where `include` names the file."""
_JUDGED = frozenset[Why]({"generated", "minified"})
"""What a text suggests, and `.gitattributes` may deny by `-linguist-generated`."""
_TOPIC = "facts 1"
"""Changed whenever the same content would be judged or counted otherwise."""


@dataclass(frozen=True)
class Rules:
    """What `.github/capuchin.yml` says: globs as `pipeline.codebase.globs.Globs` reads them."""

    include: tuple[str, ...] = ()
    """Only these are read, even those guessed to be vendored, documentation or data; empty: all."""
    exclude: tuple[str, ...] = ()


async def sources_of(codebase: Codebase, rules: Rules | None = None) -> Sources:
    """The source files of `codebase`, and what else is in it with the reason for leaving it out.

    Contents that an earlier call judged, for whatever commit or issue, are not read again.

    Raises:
        GitFailed: the repository is damaged.
    """
    regular = [file for file in codebase.files.values() if file.regular]
    said = await attributes_of(codebase, regular)
    wanted, left_out = await asyncio.to_thread(_by_name, codebase, said, rules or Rules())

    async def work(shelf: Shelf) -> dict[Content, str]:
        return await _facts(codebase, wanted, shelf)

    facts = await on_shelf(codebase.git_dir, work)
    return await asyncio.to_thread(_sorted_out, codebase, said, wanted, left_out, facts)


def _by_name(
    codebase: Codebase, said: Mapping[str, Said], rules: Rules
) -> tuple[list[Source], list[LeftOut]]:
    """What only its content can tell of, and what is out already."""
    include, exclude = Globs(rules.include), Globs(rules.exclude)
    wanted: list[Source] = []
    left_out = [LeftOut(entry.path, "unreadable name") for entry in codebase.skipped]
    for file in codebase.files.values():
        why = _unfit(file) or _ruled_out(file.path, include, exclude)
        why = why or _guessed(file.path, said.get(file.path, {}), lifted=bool(include))
        if why is None and file.size > MAX_BYTES:
            why = "too large"
        if why is None:
            wanted.append(Source(file.path, file.blob, file.size, 0, is_test(file.path)))
        else:
            left_out.append(LeftOut(file.path, why))
    return wanted, left_out


def _sorted_out(
    codebase: Codebase,
    said: Mapping[str, Said],
    wanted: Iterable[Source],
    left_out: list[LeftOut],
    facts: Mapping[Content, str],
) -> Sources:
    files: list[Source] = []
    for file in wanted:
        tokens, _, stated = facts[_content(file)].partition(" ")
        why = _why(stated, said.get(file.path, {}))
        if why is None:
            files.append(Source(file.path, file.blob, file.size, int(tokens), file.test))
        else:
            left_out.append(LeftOut(file.path, why))
    files.sort(key=lambda file: (not is_python(file.path), file.path))
    return Sources(tuple(files), tuple(sorted(left_out, key=lambda e: e.path)), codebase)


def _unfit(file: File) -> Why | None:
    if file.mode == SUBMODULE:
        return "submodule"
    return None if file.regular else "symbolic link"


def _ruled_out(path: str, include: Globs, exclude: Globs) -> Why | None:
    if exclude.covering(path) or (include and not include.covering(path)):
        return "excluded"
    return None


def _guessed(path: str, said: Said, *, lifted: bool) -> Why | None:
    """What the attributes say, and by the name what they do not deny."""
    stated: list[Why] = [why for why, holds in said.items() if holds]
    guesses: list[Why] = [why for why in by_name(path) if why not in said]
    likely: list[Why] = [why for why in guesses if not (lifted and why in _LIFTED)]
    return stated[0] if stated else likely[0] if likely else None


def _why(stated: str, said: Said) -> Why | None:
    """The reason in a fact, unless the attributes deny it."""
    why = _NAMES.get(stated)
    denied = why in _JUDGED and said.get("generated") is False
    return None if denied else why


_NAMES: Mapping[str, Why] = {
    "binary": "binary",
    "empty": "empty",
    "generated": "generated",
    "LFS pointer": "LFS pointer",
    "minified": "minified",
}


Content = tuple[str, bool]
"""A blob and whether it is read as Python: only that declares its encoding."""


def _content(file: Source) -> Content:
    return file.blob, is_python(file.path)


async def _facts(codebase: Codebase, files: Sequence[Source], shelf: Shelf) -> dict[Content, str]:
    """`TOKENS WHY` of each content, WHY empty for source."""
    facts: dict[Content, str] = {}
    for python in (True, False):
        some = {file.blob: file for file in files if is_python(file.path) == python}
        topic = f"{_TOPIC} {'python' if python else 'other'}"
        known = await asyncio.to_thread(shelf.notes, topic, some)
        for chunk in chunks([file for blob, file in some.items() if blob not in known]):
            contents = await codebase.read_all(file.path for file in chunk)
            told = await asyncio.to_thread(_judged, chunk, contents)
            await asyncio.to_thread(shelf.note, topic, told.items())
            known.update(told)
        facts.update({(blob, python): fact for blob, fact in known.items()})
    return facts


def _judged(chunk: Iterable[Source], contents: Mapping[str, bytes]) -> dict[str, str]:
    told: dict[str, str] = {}
    for file in chunk:
        text = decoded(file.path, contents[file.path])
        why = "binary" if text is None else by_content(text.text) or ""
        tokens = 0 if text is None else estimate(text.text)
        told[file.blob] = f"{tokens} {why}"
    return told
