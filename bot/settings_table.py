"""The tables of settings in README.md, made from the models: `python -m bot.settings_table`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from bot.repo_config import schema
from bot.settings import Settings, variable_name

BEGIN = "<!-- settings: made by `python -m bot.settings_table README.md`; a test compares -->"
END = "<!-- /settings -->"
KEYS_BEGIN = "<!-- keys: made by `python -m bot.settings_table README.md`; a test compares -->"
KEYS_END = "<!-- /keys -->"


def render_table() -> str:
    """Markdown, one row a setting."""
    rows = ["| Variable | Default | What it sets |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default: Any = field.get_default(call_default_factory=True)
        if isinstance(default, SecretStr):
            default = default.get_secret_value()
        shown = f"`{default}`" if default not in ("", None, {}) else ""
        description = (field.description or "").replace("|", "\\|")
        rows.append(f"| `{variable_name(name)}` | {shown} | {' '.join(description.split())} |")
    return "\n".join(rows)


def fill_tables(text: str) -> str:
    """`text` with the two tables between their marks.

    Raises:
        ValueError: a mark is missing.
    """
    return _replace_between(
        _replace_between(text, BEGIN, render_table(), END),
        KEYS_BEGIN,
        schema.render_table(),
        KEYS_END,
    )


def _replace_between(text: str, begin: str, inside: str, end: str) -> str:
    head, _, rest = text.partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise ValueError("The marks of the table are missing.")
    return f"{head}{begin}\n{inside}\n{end}{tail}"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.write_text(fill_tables(place.read_text(encoding="utf-8")), encoding="utf-8")
