"""Renders long texts from `templates/NAME.md.j2`, where untrusted values pass a filter."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from bot.safe_text import block, code, prose, script_block
from prompts.text import agree, describe_dollars, pluralize


def render(name: str, **values: object) -> str:
    """The text of the template `name`, without line breaks at its ends.

    Raises:
        jinja2.UndefinedError: the template uses a missing value.
    """
    return _environment().get_template(f"{name}.md.j2").render(values).strip("\n")


def to_cell(text: str) -> str:
    """Untrusted text as a cell of a table."""
    return prose(" ".join(text.split()).replace("|", "¦"), 200)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701  Markdown: each untrusted value passes one of these filters
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., str]] = {
        "code": code,
        "prose": prose,
        "block": block,
        "script_block": script_block,
        "cell": to_cell,
        "count": pluralize,
        "agree": agree,
        "thousands": "{:,}".format,
        "percent": "{:.0%}".format,
        "dollars": describe_dollars,
    }
    environment.filters.update(filters)
    return environment
