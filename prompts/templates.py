"""Renders a prompt from its template."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from prompts.text import drop_index_lines, shorten, strip_ansi

FOLDER = Path(__file__).parent


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
