"""Finds the lines of a search block in a file and replaces them."""

import difflib
import html
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
_SIMILAR = 0.6
"""How similar lines must be to be quoted as the probable target."""
_COMPARED = 300
"""Characters of a line that are compared; the time grows with their square."""
_MOST_SCANNED = 2_000
"""Up to this many lines, all are compared; of more, the 200 that share the rarest words."""
_WORD = re.compile(r"[A-Za-z]+|\d+|[^\W\d_]+")
_MOST_PAIRS = 4_000_000
"""Searched lines times replacement lines, above which they are not compared individually."""


@dataclass(frozen=True)
class Ambiguous:
    """The lines occur more than once; `at` holds the line numbers, from 1."""

    at: tuple[int, ...]


class Unchanged:
    """The replacement equals the existing text."""


class Missing:
    """The lines are not in the file."""


def replace_once(
    text: str, search: Sequence[str], replacement: Sequence[str]
) -> str | Ambiguous | Unchanged | Missing:
    """Replace the lines `search` in `text` if they occur exactly once.

    The first method that finds a match is used: the exact lines; ignoring white space at line ends;
    ignoring blank lines around the block; the whole block with one common indentation added or
    removed, also in the replacement; typographic quotes and entities read as what they stand for,
    also in the replacement. Lines that both parts share keep the file's bytes; new lines
    get the file's line ending. A file without a final line break stays without one.
    """
    lines = _LINE.findall(text)
    bare = [line.rstrip("\r\n") for line in lines]
    if list(search) == list(replacement):
        return Unchanged()
    for find in (
        *(_match_exactly, _match_trimmed, _match_without_blank_edges, _match_shifted),
        _match_decoded,
    ):
        found = find(bare, list(search), list(replacement))
        if len(found) > 1:
            return Ambiguous(tuple(start + 1 for start, *_ in found))
        if found:
            start, taken, put = found[0]
            return _splice(lines, start, taken, put)
    return Missing()


def find_nearest(text: str, search: Sequence[str]) -> tuple[int, str] | None:
    """The lines of `text` most similar to `search` and the number of the first; None if too
    different."""
    lines = text.splitlines()
    wanted = [line.strip() for line in search if line.strip()]
    if not wanted or not lines:
        return None
    anchor = max(wanted, key=len)
    start_of = anchor[:_COMPARED]
    matcher = difflib.SequenceMatcher(b=start_of, autojunk=False)

    def likeness(at: int) -> float:
        matcher.set_seq1(lines[at].strip()[:_COMPARED])
        if matcher.real_quick_ratio() < _SIMILAR or matcher.quick_ratio() < _SIMILAR:
            return 0
        return matcher.ratio()

    is_long = len(anchor) >= 8  # else it would be a part of many lines
    best = next((at for at, line in enumerate(lines) if is_long and anchor in line), None)
    if best is None:
        best = max(_likely_lines(lines, start_of), key=likeness, default=None)
        if best is None or likeness(best) < _SIMILAR:
            return None
    offset = next(i for i, line in enumerate(search) if line.strip() == anchor)
    start = max(0, best - offset)
    return start + 1, "\n".join(lines[start : start + len(search)])


def _likely_lines(lines: list[str], anchor: str) -> Sequence[int]:
    """The numbers of the lines worth comparing with `anchor`, in file order."""
    if len(lines) <= _MOST_SCANNED:
        return range(len(lines))
    wanted = set(_WORD.findall(anchor))
    shared = [wanted.intersection(_WORD.findall(line[:_COMPARED])) for line in lines]
    often = Counter(word for words in shared for word in words)
    weight = {
        at: sum(1 / often[word] for word in words) for at, words in enumerate(shared) if words
    }
    return sorted(sorted(weight, key=lambda at: -weight[at])[:200])


Matches = list[tuple[int, int, list[str]]]
"""The start of the match, how many of the file's lines it covers, and the replacement."""


def _match_exactly(bare: list[str], search: list[str], replacement: list[str]) -> Matches:
    return [(at, len(search), replacement) for at in _positions(bare, search, str)]


def _match_trimmed(bare: list[str], search: list[str], replacement: list[str]) -> Matches:
    return [
        (at, len(search), _restore_own_lines(bare[at : at + len(search)], search, replacement))
        for at in _positions(bare, search, str.rstrip)
    ]


def _match_without_blank_edges(
    bare: list[str], search: list[str], replacement: list[str]
) -> Matches:
    inner, put = _strip_blank_edges(search), _strip_blank_edges(replacement)
    if inner == search or not inner:
        return []
    return _match_trimmed(bare, inner, put)


def _match_shifted(bare: list[str], search: list[str], replacement: list[str]) -> Matches:
    inner, put = _strip_blank_edges(search), _strip_blank_edges(replacement)
    if not inner:
        return []
    found: Matches = []
    for at in _positions(bare, inner, str.strip):
        there = bare[at : at + len(inner)]
        moved = _reindent(there, inner, put)
        if moved is not None:
            found.append(
                (at, len(inner), _restore_own_lines(there, _reindent(there, inner, inner), moved))
            )
    return found


def _match_decoded(bare: list[str], search: list[str], replacement: list[str]) -> Matches:
    for decode in (_straighten, html.unescape, _read_as_typed):
        wanted = [decode(line) for line in search]
        if wanted != search and (
            found := _match_shifted(bare, wanted, [decode(line) for line in replacement])
        ):
            return found
    return []


_TYPOGRAPHIC = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "…": "...", "\xa0": " "}
)


def _straighten(line: str) -> str:
    return line.translate(_TYPOGRAPHIC)


def _read_as_typed(line: str) -> str:
    return _straighten(html.unescape(line))


def _reindent(there: list[str], search: list[str], lines: list[str]) -> list[str] | None:
    """Shift `lines` by the indentation between `there` and `search`, if it is uniform."""
    real, written = there[0].rstrip(), search[0].rstrip()
    more = real.removesuffix(written) if real.endswith(written) else None
    less = written.removesuffix(real) if written.endswith(real) else None
    for a, b in zip(there, search, strict=True):
        if not a.strip():
            continue
        if more is None or a.rstrip() != more + b.rstrip():
            more = None
        if less is None or less + a.rstrip() != b.rstrip():
            less = None
    if more is not None:
        return [more + line if line.strip() else line for line in lines]
    if less is None or any(line.strip() and not line.startswith(less) for line in lines):
        return None
    return [line.removeprefix(less) if line.strip() else line for line in lines]


def _restore_own_lines(
    there: list[str], search: list[str] | None, replacement: list[str]
) -> list[str]:
    """The `replacement`, with the file's own form of the lines that it shares with `search`."""
    if search is None:
        return replacement
    put: list[str] = []
    ours = [line.rstrip() for line in search]
    theirs = [line.rstrip() for line in replacement]
    for kind, i, j, k, end in _opcodes(ours, theirs):
        put += there[i:j] if kind == "equal" else replacement[k:end]
    return put


def _splice(lines: list[str], start: int, taken: int, put: list[str]) -> str | Unchanged:
    """Insert the lines into the text; a line whose words stay keeps its exact bytes."""
    old = lines[start : start + taken]
    bare = [line.rstrip("\r\n") for line in old]
    ended = sum(line.endswith("\n") for line in lines)
    ending = "\r\n" if sum(line.endswith("\r\n") for line in lines) * 2 > ended else "\n"
    new: list[str] = []
    for kind, i, j, k, end in _opcodes(bare, put):
        if kind == "equal":
            new += old[i:j]
        else:
            new += [line + ending for line in put[k:end]]
    at_end = start + taken == len(lines)
    if new and at_end and lines and not lines[-1].endswith("\n"):
        new = [line if line.endswith("\n") else line + ending for line in new]
        new[-1] = new[-1].removesuffix("\n").removesuffix("\r")
    if new == old:
        return Unchanged()
    kept = lines[:start]
    if not new and at_end and kept and not lines[-1].endswith("\n"):
        kept[-1] = kept[-1].removesuffix("\n").removesuffix("\r")
    return "".join([*kept, *new, *lines[start + taken :]])


def _opcodes(old: list[str], new: list[str]) -> Sequence[tuple[str, int, int, int, int]]:
    """The changes from `old` to `new`, as difflib's opcodes."""
    if len(old) * len(new) > _MOST_PAIRS:
        return [("replace", 0, len(old), 0, len(new))]
    return difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()


def _positions(bare: list[str], search: list[str], form: Callable[[str], str]) -> list[int]:
    """Where the lines of `search` begin in `bare`, in linear time (Knuth, Morris and Pratt)."""
    wanted = [form(line) for line in search]
    if not any(wanted):
        return []
    borders = [0]
    for line in wanted[1:]:
        borders.append(_advance(wanted, borders, borders[-1], line))
    found: list[int] = []
    matched = 0
    for at, line in enumerate(bare):
        if matched == len(wanted):
            matched = borders[-1]
        matched = _advance(wanted, borders, matched, form(line))
        if matched == len(wanted):
            found.append(at + 1 - matched)
            if len(found) == 50:  # the second makes it ambiguous
                break
    return found


def _advance(wanted: list[str], borders: list[int], matched: int, line: str) -> int:
    """How many lines of `wanted` match after one more line, where `matched` did before it."""
    while matched and wanted[matched] != line:
        matched = borders[matched - 1]
    return matched + (wanted[matched] == line)


def _strip_blank_edges(lines: list[str]) -> list[str]:
    """Remove the blank lines at both ends."""
    filled = [at for at, line in enumerate(lines) if line.strip()]
    return lines[filled[0] : filled[-1] + 1] if filled else []
