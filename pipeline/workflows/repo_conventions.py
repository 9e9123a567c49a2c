"""What this repository expects of an edit apart from the code."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from pipeline.codebase.commit import Codebase, PastCommit, read_history
from pipeline.codebase.text import Globs
from pipeline.data.code_places import Context, Habits, SourceFile
from pipeline.data.types import Issue
from pipeline.languages.conventions import is_test
from pipeline.languages.registry import is_source, read_test_files
from pipeline.reproduction.places import rank_test_files
from prompts.text import agree
from sandbox.frozen import replace

_HEADING = re.compile(
    r"^(?:(#{1,4})[ \t]+\S.*|\S[^\n]*\n([=\-~^*+\"'`#])\2{2,}[ \t]*)$", re.MULTILINE
)
"""A heading of Markdown, or one that is underlined, as in reStructuredText."""

_ASKED = re.compile(
    r"\b(?:tests?|testing|change[- ]?logs?|news|release notes?|styles?|format\w*|lint\w*"
    r"|conventions?|commits?|pull[- ]requests?|PRs?|merge requests?|patch(?:es)?)\b",
    re.IGNORECASE,
)
_ENTRY = re.compile(r"\n(?=[-*+#.\w])")


def show_beginning(path: str, text: str, characters: int) -> SourceFile:
    """The first lines of a file that fit into `characters`."""
    if len(text) <= characters:
        return SourceFile(path=path, text=text, tokens=0)
    return _build_part(path, _cut_line(text, characters), "more is not shown")


def show_asked(path: str, text: str, characters: int) -> SourceFile:
    """Of a guide for contributors, what fits into `characters`: first the sections whose headings
    tell what a change is to look like, then the others."""
    headings = list(_HEADING.finditer(text))
    asked = _find_asked(headings)
    if len(text) <= characters or not asked:
        return show_beginning(path, text, characters)
    starts = [0, *(heading.start() for heading in headings), len(text)]
    parts = [text[start:end] for start, end in pairwise(starts)]
    shares = dict(zip(asked, _share(characters, [len(parts[at]) for at in asked]), strict=True))
    for at, part in enumerate(parts):
        shares.setdefault(at, min(len(part), characters - sum(shares.values())))
    shown = "".join(
        part if shares[at] == len(part) else f"{_cut_line(part, shares[at])}\n[...]\n"
        for at, part in enumerate(parts)
        if shares[at]
    )
    return _build_part(path, shown, "more is not shown")


def _find_asked(headings: Sequence[re.Match[str]]) -> list[int]:
    """Which of the `headings`, from 1, tell what a change is to look like, and those below them."""
    kinds = list(dict.fromkeys(heading[1] or heading[2] for heading in headings))
    asked: list[int] = []
    above: int | None = None
    for at, heading in enumerate(headings, 1):
        level = kinds.index(heading[1] or heading[2])
        if above is None or level <= above:
            above = level if _ASKED.search(heading[0]) else None
        if above is not None:
            asked.append(at)
    return asked


def show_newest(path: str, text: str, characters: int) -> SourceFile:
    """The first whole sections of a changelog that fit into `characters`; where these would be
    less than half, the beginning of the next as well, with a mark that it goes on. Of a longer
    newest section, the first and the last entries below each of its headings: new ones are put at
    either end."""
    starts = _find_sections(text)
    if len(text) <= characters or not starts:
        return show_beginning(path, text, characters)
    end = max((start for start in starts[1:] if start <= characters), default=0)
    if 2 * end >= characters:
        return _build_part(path, text[:end].rstrip("\n") + "\n", "older sections are not shown")
    if len(starts) > 1 and not end:
        section = text[: starts[1]].rstrip("\n") + "\n"
        below = [one.start() for one in _HEADING.finditer(section) if one.start() > starts[0]]
        parts = [section[at:end] for at, end in pairwise([0, *below, len(section)])]
        room = max(characters, 300 * len(parts))
        if room > 2 * characters:
            parts, room = [section], characters
        shares = _share(room, [len(part) for part in parts])
        joined = "".join(map(_cut_middle, parts, shares))
        return _build_part(path, joined, "older sections are not shown")
    more = "the rest of this section, and what comes after it, is not shown"
    return _build_part(path, _cut_line(text, characters), more)


def _build_part(path: str, text: str, note: str) -> SourceFile:
    return SourceFile(path=path, text=f"{text}\n[... {note} ...]\n", tokens=0, partial=True)


def _cut_line(text: str, characters: int) -> str:
    return text[:characters].rpartition("\n")[0]


def _share(room: int, lengths: list[int]) -> list[int]:
    """How much of the room each gets; short ones leave the longer ones the rest of theirs."""
    shares = [0] * len(lengths)
    for done, at in enumerate(sorted(range(len(lengths)), key=lambda at: lengths[at])):
        shares[at] = min(lengths[at], room // (len(lengths) - done))
        room -= shares[at]
    return shares


def _cut_middle(part: str, characters: int) -> str:
    """The first and the last entries of a part of a section."""
    if len(part) <= characters:
        return part
    first = _cut_line(part, characters // 2)
    last = _cut_to_entry(part[max(len(first), len(part) - characters + len(first)) :])
    return f"{first}\n[... the middle of this section is not shown ...]\n{last}"


def _cut_to_entry(text: str) -> str:
    """`text` from the first line that begins an entry, or else from its first whole line."""
    entry = _ENTRY.search(text)
    return text[entry.start() + 1 :] if entry else text.partition("\n")[2]


def _find_sections(text: str) -> list[int]:
    """Where the sections of the highest level that occurs twice begin."""
    starts: dict[str, list[int]] = {}
    for heading in _HEADING.finditer(text):
        starts.setdefault(heading[1] or heading[2], []).append(heading.start())
    repeated = [found for found in starts.values() if len(found) > 1]
    return repeated[0] if repeated else []


_FILE = re.compile(
    r"(?:docs?/)?(changelog|changes|history|news|release[-_]?notes|whats[-_]?new)"
    r"(\.(md|rst|txt))?",
    re.IGNORECASE,
)
_FOLDER = re.compile(
    r"(?:docs?/)?(changelog(\.d)?|changes|newsfragments|news|news\.d|docs?/whatsnew(/fragments)?)/"
    r"([^/]+\.(md|rst|txt)|(\+[\w-]+|\d+)\.[a-z][a-z_-]*)",
    re.IGNORECASE,
)
_RELEASE_TOOL = re.compile(
    r"\.changeset/config\.json|\.?release-please-\w+\.json|\.?cliff\.toml|\.releaserc(\.\w+)?"
)
_RELEASE_SCRIPT = re.compile(
    r"conventional-changelog|semantic-release|standard-version|auto-changelog|release-it"
)
"""In `package.json`: what writes the changelog from the commits."""
_WORDS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"AGENTS\.md",
        r"\.github/copilot-instructions\.md",
        r"CLAUDE\.md",
        r"\.cursor/rules/[^/]+\.mdc?",
        r"(\.github/|docs/)?CONTRIBUTING(\.(md|rst|txt))?",
    )
)
_MOST_WORDS = 3
_WORDS_CHARACTERS = 3000
_GENERAL = re.compile(r"readme|index|template|explanation|summary", re.IGNORECASE)
"""In names of files that explain the others."""
_TEMPLATE = re.compile(r"/_?template[^/]*$", re.IGNORECASE)
"""towncrier's, which stays in the folder when its entries are collected."""
_IN_FOLDER = "Changes that users notice are noted in files of their own in"
_NUMBER = re.compile(r"\d{1,12}")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_NEWEST_CHARACTERS = 1500
_LEAST_COMMITS = 5
"""Fewer past commits are not enough to infer a habit."""


async def read_habits(codebase: Codebase, context: Context, exclude: Sequence[str] = ()) -> Habits:
    """Read the habits of `codebase`; `context` holds what the model sees besides, and paths that
    match `exclude` are not shown."""
    history = await read_history(codebase)
    code = _find_code(history)
    changelog, newest, emptied = await _read_changelog(codebase, history, code)
    return Habits(
        changelog=changelog,
        newest=newest,
        emptied=emptied,
        tests=_describe_tests(code),
        words=await _read_words(codebase, exclude),
        nearest=await _read_nearest(codebase, context, history, exclude),
    )


async def _read_words(codebase: Codebase, exclude: Sequence[str]) -> tuple[SourceFile, ...]:
    """Read what the maintainers tell those who write edits; a link to another of them once."""
    globs = Globs(exclude)
    found: dict[str, SourceFile] = {}
    for path in find_words(codebase.files):
        text = None if globs.first_match(path) else await codebase.read_text(path)
        if text and text.strip() and len(found) < _MOST_WORDS:
            found.setdefault(text, show_asked(path, text, _WORDS_CHARACTERS))
    return tuple(found.values())


def find_words(paths: Iterable[str]) -> list[str]:
    """The paths of the files in which maintainers speak to agents and contributors, agents'
    first."""
    rated = [
        (rank, path)
        for path in paths
        for rank, pattern in enumerate(_WORDS)
        if pattern.fullmatch(path)
    ]
    return [path for _, path in sorted(rated)]


async def note_habits(
    issue: Issue, context: Context, codebase: Codebase, exclude: Sequence[str] = ()
) -> Context:
    """`context`, which names the files that the models were shown besides, and says so if they were
    told to add no entry to the changelog."""
    habits = await read_habits(codebase, context, exclude)
    forbidden = habits.forbids_entry(issue.number)
    beside = (*([habits.nearest] if habits.nearest else []), *habits.words)
    shown = beside if forbidden else (*beside, *habits.newest)
    return replace(
        context,
        beside=tuple(file.path for file in shown),
        numbered_entries=habits.numbered_folder if forbidden else "",
    )


async def _read_changelog(
    codebase: Codebase, history: Sequence[PastCommit], code: Sequence[PastCommit]
) -> tuple[str, tuple[SourceFile, ...], str]:
    """As `Habits.changelog`, `newest` and `emptied` say."""
    fragments = [
        path
        for path in codebase.files
        if _FOLDER.fullmatch(path) and not _GENERAL.search(path.rpartition("/")[2])
    ]
    collected = any(_is_fragment(path.rpartition("/")[2]) for path in fragments)
    # Right after a release, only what explains the folder is left in it.
    left = next((p for p in codebase.files if _FOLDER.fullmatch(p) and _TEMPLATE.search(p)), "")
    if left and not collected:
        folder = left.rpartition("/")[0]
        return f"{_IN_FOLDER} {folder}, which has none since the last release.", (), folder
    single = min((path for path in codebase.files if _FILE.fullmatch(path)), default=None)
    scripts = await codebase.read_text("package.json") if "package.json" in codebase.files else ""
    if any(map(_RELEASE_TOOL.fullmatch, codebase.files)) or _RELEASE_SCRIPT.search(scripts or ""):
        single = None  # the tool writes it
    noted = sum(
        any(_FILE.fullmatch(path) or _FOLDER.fullmatch(path) for path in commit.paths)
        for commit in code
    )
    change = agree(noted, "changes", "change")
    share = (
        f" {noted} of the last {len(code)} commits that change code {change} it." if code else ""
    )
    if len(code) >= _LEAST_COMMITS and not noted:
        return "", (), ""  # kept at releases, if at all
    changed = [path for commit in history for path in _sort_newest(commit.paths)]
    latest = [path for path in changed if path in fragments]
    if fragments and (latest or collected or not single):
        shown = list(dict.fromkeys((*latest, *_sort_newest(fragments))))[:3]
        room = _NEWEST_CHARACTERS // len(shown)
        texts = [(path, await codebase.read_text(path) or "") for path in shown]
        folder = shown[0].rpartition("/")[0]
        return (
            f"{_IN_FOLDER} {folder}.{share}",
            tuple(_show_entries(path, text, room) for path, text in texts),
            "",
        )
    text = await codebase.read_text(single) if single else None
    if not single or not text:
        return "", (), ""
    shown_part = show_newest(single, text, _NEWEST_CHARACTERS)
    # Where no commits tell, a newest entry of long ago does: it is kept no more.
    years = [int(year) for year in _YEAR.findall(shown_part.text)]
    today = await codebase.read_date() if years and not noted else None
    if today and today.year - max(years) > 2:
        return "", (), ""
    return f"Changes that users notice are noted in {single}.{share}", (shown_part,), ""


def _show_entries(path: str, text: str, characters: int) -> SourceFile:
    """The beginning of an entry's own file; of a release's file both ends, as new entries are put
    at either."""
    if _is_fragment(path.rpartition("/")[2]) or len(text) <= characters:
        return show_beginning(path, text, characters)
    return SourceFile(path=path, text=_cut_middle(text, characters), tokens=0, partial=True)


def _sort_newest(paths: Iterable[str]) -> list[str]:
    """Sorts by the numbers in the names, so that v0.12.1 comes before v0.9.0."""
    return sorted(paths, key=lambda path: (list(map(int, _NUMBER.findall(path))), path))[::-1]


def _describe_tests(code: Sequence[PastCommit]) -> str:
    if len(code) < _LEAST_COMMITS:
        return ""
    tested = sum(any(map(is_test, commit.paths)) for commit in code)
    change = agree(tested, "changes", "change")
    return f"{tested} of the last {len(code)} commits that change code also {change} tests."


async def _read_nearest(
    codebase: Codebase, context: Context, history: Sequence[PastCommit], exclude: Sequence[str]
) -> SourceFile | None:
    shown = [file.path for file in context.files]
    sources = [path for path in shown if is_source(path) and not is_test(path)]
    texts = await read_test_files(codebase, exclude)
    if not sources or not texts or any(path in texts for path in shown[:10]):
        return None  # the model that ranked the files chose tests by what it knows of them
    for source in sources[:3]:  # the likeliest to be edited comes first
        ranked = await asyncio.to_thread(rank_test_files, [source], texts, history)
        if ranked:
            path = ranked[0][0]
            if path in shown:  # further down: it needs no second time
                return None
            return show_beginning(path, texts[path], 24_000)
    return None


def _find_code(history: Sequence[PastCommit]) -> list[PastCommit]:
    return [
        commit
        for commit in history
        if any(is_source(path) and not is_test(path) for path in commit.paths)
    ]


def _is_fragment(name: str) -> bool:
    """Whether towncrier and its kin read the file of that name: `1234.bugfix.rst`, `+new.rst`,
    `1234.bugfix`."""
    stem, _, kind = re.sub(r"\.(md|rst|txt)$", "", name).rpartition(".")
    numbered = any(map(str.isdigit, stem)) and kind.replace("_", "").replace("-", "").isalpha()
    return numbered or name.startswith("+")
