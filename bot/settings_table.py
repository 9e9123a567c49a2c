"""The table of settings in README.md, made from `Settings`: `python -m bot.settings_table`."""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import SecretStr

from bot.settings import Settings, variable

BEGIN = "<!-- settings: made by `python -m bot.settings_table README.md`; a test compares -->"
END = "<!-- /settings -->"


def table() -> str:
    """Markdown, one row a setting."""
    rows = ["| Variable | Default | What it sets |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = field.default
        if isinstance(default, SecretStr):
            default = default.get_secret_value()
        shown = f"`{default}`" if default not in ("", None) else ""
        said = (field.description or "").replace("|", "\\|")
        rows.append(f"| `{variable(name)}` | {shown} | {' '.join(said.split())} |")
    return "\n".join(rows)


def filled(text: str) -> str:
    """`text` with the table between its two marks.

    Raises:
        ValueError: a mark is missing.
    """
    head, _, rest = text.partition(BEGIN)
    _, found, tail = rest.partition(END)
    if not found:
        raise ValueError("The marks of the table are missing.")
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.write_text(filled(place.read_text(encoding="utf-8")), encoding="utf-8")
