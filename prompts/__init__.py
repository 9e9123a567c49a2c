"""What we say to models: Jinja2 files by stage, and `render(name, **values)`; nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

FOLDER = Path(__file__).parent


def render(name: str, **values: object) -> str:
    """The template `name` (as in `testing/write`) with `values`.

    Values are only ever values: text of an issue, a file or a model is never part of a template.

    Raises:
        jinja2.UndefinedError: the template uses a value that was not given.
        jinja2.TemplateNotFound: there is no such template.
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
    }
    environment.filters.update(filters)
    return environment


def _escape_tag(text: str, tag: str) -> str:
    """`text` unable to close the `tag` around it: its own closing tags get a backslash."""
    return re.sub(rf"<(\s*/\s*{re.escape(tag)})\b", r"<\\\1", text, flags=re.IGNORECASE)


def _block(text: str, tag: str) -> str:
    """As `_escape_tag`, and ending with a line break, so that the closing tag gets its own line."""
    text = _escape_tag(text, tag)
    return text if not text or text.endswith("\n") else f"{text}\n"


def _escape_attribute(text: str) -> str:
    """`text` unable to end a quoted attribute or its tag."""
    return re.sub(r'["<>\r\n]', "_", text)


def shorten(text: str, characters: int) -> str:
    """`text` with its middle left out, and saying so, when it is longer than `characters`."""
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
