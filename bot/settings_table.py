"""The table of settings in README.md, made from `Settings`: `python -m bot.settings_table`."""

from __future__ import annotations

import sys

from pydantic import SecretStr

from bot.settings import Settings, variable


def table() -> str:
    """Markdown, one row a setting."""
    rows = ["| Variable | Default | |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = (
            field.default.get_secret_value()
            if isinstance(field.default, SecretStr)
            else field.default
        )
        shown = f"`{default}`" if default not in ("", None) else ""
        rows.append(
            f"| `{variable(name)}` | {shown} | {' '.join((field.description or '').split())} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
