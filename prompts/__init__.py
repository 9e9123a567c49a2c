"""The prompts: Jinja2 templates by stage, and `render(name, **values)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

FOLDER = Path(__file__).parent
LAST_LINES = 40
"""How many lines at the end of a shortened text are kept: there, programs say how they ended."""
_INDEX_LINE = re.compile(r"^index [0-9a-f]{4,64}\.\.[0-9a-f]{4,64}(?: [0-7]{6})?\r?\n", re.M)
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def render(name: str, **values: object) -> str:
    """Render the template `name` (such as `testing/write`) with `values`.

    Values are never parsed as templates, whether from an issue, a file or a model.

    Raises:
        jinja2.UndefinedError: the template uses a missing value.
        jinja2.TemplateNotFound: the template does not exist.
    """
    return _environment().get_template(f"{name}.j2").render(values).strip("\n") + "\n"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701  these are prompts, not pages
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Callable[..., str]] = {
        "inside": _escape_tag,
        "block": _block,
        "attribute": _escape_attribute,
        "short": shorten,
        "plain": strip_ansi,
        "no_index": drop_index_lines,
    }
    environment.filters.update(filters)
    return environment


def _escape_tag(text: str, tag: str) -> str:
    """Escape closing `tag`s in `text` with a backslash, so that it cannot end its element."""
    return re.sub(rf"<(\s*/\s*{re.escape(tag)})\b", r"<\\\1", text, flags=re.IGNORECASE)


def _block(text: str, tag: str) -> str:
    """Escape closing `tag`s and end with a line break, for a closing tag on its own line."""
    text = _escape_tag(text, tag)
    return text if not text or text.endswith("\n") else f"{text}\n"


def _escape_attribute(text: str) -> str:
    """Replace characters that could end a quoted attribute or its tag."""
    return re.sub(r'["<>\r\n]', "_", text)


def shorten(text: str, characters: int, *, last: int = LAST_LINES) -> str:
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
    return _ANSI.sub("", text)


def drop_index_lines(diff: str) -> str:
    """A diff for reading: without git's lines that name blobs, which say nothing to a reader."""
    return _INDEX_LINE.sub("", diff)
