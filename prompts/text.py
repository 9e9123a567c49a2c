"""Text for a reader, a model or a person: counts and lists in words, shortened, what is seen."""

import re
import unicodedata
from collections.abc import Iterable, Sequence


def shorten(text: str, characters: int, *, last: int = 40) -> str:
    """Replace the middle of a `text` longer than `characters` by a note of about 40 more.

    Cut between lines; the last `last` lines are kept if they fit. A line that is too long by itself
    is cut inside.
    """
    if len(text) <= characters:
        return text
    lines = text.split("\n")
    tail = _count_fitting(reversed(lines[-last:]), characters)
    used = sum(len(line) + 1 for line in lines[len(lines) - tail :])
    if used < 2 * characters // 3:
        tail = _count_fitting(reversed(lines), 2 * characters // 3)
        used = sum(len(line) + 1 for line in lines[len(lines) - tail :])
    head = _count_fitting(lines[: len(lines) - tail], characters - used)
    left = len(lines) - head - tail
    if not tail or not head:
        return _cut_inside(text, characters)
    note = f"[... {left} {'line' if left == 1 else 'lines'} left out ...]"
    return "\n".join([*lines[:head], note, *lines[len(lines) - tail :]])


def _count_fitting(lines: Iterable[str], characters: int) -> int:
    """How many of `lines`, from the first on, have room."""
    count = 0
    for line in lines:
        characters -= len(line) + 1
        if characters < 0:
            break
        count += 1
    return count


def _cut_inside(text: str, characters: int) -> str:
    head = characters // 3
    note = f"[... {len(text) - characters} characters left out ...]"
    return f"{text[:head]}\n{note}\n{text[len(text) - characters + head :]}"


def strip_ansi(text: str) -> str:
    """Without terminal escape sequences (ECMA-48)."""
    if "\x1b" not in text:  # as nearly always, of thousands of lines
        return text
    return re.sub(
        r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])", "", text
    )


def drop_index_lines(diff: str) -> str:
    """A diff for reading: without git's lines that name blobs, which say nothing to a reader."""
    return re.sub(
        r"^index [0-9a-f]{4,64}\.\.[0-9a-f]{4,64}(?: [0-7]{6})?\r?\n", "", diff, flags=re.M
    )


_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0d\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
"""Letters, marks and unassigned characters that are displayed as nothing, such as Hangul fillers:
Unicode's Default_Ignorable_Code_Point, and the empty Braille pattern."""


def is_invisible(character: str) -> bool:
    """Whether a reader sees nothing of it: control, format, private and line-separating characters,
    and letters that are displayed as nothing. Spaces, line breaks and tabs are no such characters.
    """
    return character not in "\n\r\t" and (
        unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
        or _BLANK.match(character) is not None
    )


def strip_invisible(text: str) -> str:
    """Removes invisible characters from what models read and from what the bot posts.

    Models read instructions in them that people do not see ("ASCII smuggling"). Joiners go too:
    an emoji of several parts becomes its parts.
    """
    # More than one for a character: rows of them can carry any bits.
    shown = re.sub("([\ufe0e\ufe0f])[\ufe0e\ufe0f]+", r"\1", text)
    return "".join(c for c in shown if not is_invisible(c))


def pluralize(number: int, thing: str) -> str:
    """`1 test`, `2,000 tests`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def describe_dollars(dollars: float) -> str:
    """An amount in US dollars: what is less than a cent is not called nothing."""
    return "less than $0.01" if 0 < dollars < 0.005 else f"${dollars:.2f}"


def agree(number: int, singular: str, plural: str) -> str:
    """The verb for this number: `1 test passes`, `2 tests pass`."""
    return singular if number == 1 else plural


def join_names(names: Sequence[str], most: int | None = None) -> str:
    """`A`, `A and B`, `A, B and C`; of more than `most`, `A, B and 7 more`."""
    if most is not None and len(names) > most:
        names = [*names[:most], f"{len(names) - most:,} more"]
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
