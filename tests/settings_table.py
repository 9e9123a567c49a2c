"""What is written of the settings and keys: `python -m tests.settings_table FILE ...`.

A document gets the tables whose marks it has; `capuchin.example.yml` and `capuchin.schema.json`
are written whole.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

from pydantic import SecretStr

from bot.repo_config.model import (
    EffectiveConfig,
    RepoConfig,
    json_schema,
    key_description,
    list_settings,
)
from bot.safe_text import code
from bot.settings import MIXTURE, Settings, variable_fields, variable_name

_MARKS: Final = re.compile(
    r"(?P<begin><!-- (?P<name>(?:settings|keys)): [^\n]*-->\n)"
    r".*?(?P<end>\n<!-- /(?P=name) -->)",
    re.DOTALL,
)


def render_settings() -> str:
    """Markdown, one row per setting."""
    rows = ["| Variable | Default | What it sets |", "|---|---|---|"]
    for name in variable_fields():
        field = Settings.model_fields[name]
        default: Any = field.get_default(call_default_factory=True)
        if isinstance(default, SecretStr):
            default = default.get_secret_value()
        if name == "generators":
            default = json.dumps([one.model_dump(exclude_unset=True) for one in MIXTURE])
        if name == "data_dir":  # another for each user
            default = ""
        shown = f"`{default}`" if default not in ("", None, {}) else ""
        rows.append(f"| `{variable_name(name)}` | {shown} | {_to_cell(field.description or '')} |")
    return "\n".join(rows)


def render_keys() -> str:
    """Markdown, one row per key of the repository's file."""
    root = json_schema()
    rows = (
        f"| `{key}` | {code(value)} | {_to_cell(key_description(root, key))} |"
        for key, value, _ in list_settings(EffectiveConfig(RepoConfig(), {}))
    )
    return "\n".join(["| Key | Default | What it sets |", "|---|---|---|", *rows])


_TABLES: Final[Mapping[str, Callable[[], str]]] = {"settings": render_settings, "keys": render_keys}


EXAMPLE_HEAD: Final = """\
# yaml-language-server: $schema=https://raw.githubusercontent.com/capuchin-app/capuchin/main/capuchin.schema.json
# Every key of `.github/capuchin.yml` with its default. All keys are optional.
"""


def render_example() -> str:
    """The settings file that sets every key to its default."""
    root, lines, above = json_schema(), [EXAMPLE_HEAD], ""
    for key, value, _ in list_settings(EffectiveConfig(RepoConfig(), {})):
        home, _, name = key.rpartition(".")
        if home != above and home:
            lines.append(f"{home}:")
        above, indent = home, "  " if home else ""
        text = key_description(root, key)
        lines += wrap(text, 98, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
        lines.append(f"{indent}{name}: {value}".replace(": null", ":"))
    return "\n".join(lines) + "\n"


WHOLE: Final[Mapping[str, Callable[[], str]]] = {
    "capuchin.example.yml": render_example,
    "capuchin.schema.json": lambda: json.dumps(json_schema(), indent=2) + "\n",
}


def fill_tables(text: str) -> str:
    """`text` with a current table between each pair of marks.

    Raises:
        ValueError: there are no marks.
    """
    filled, count = _MARKS.subn(
        lambda found: f"{found['begin']}{_TABLES[found['name']]()}{found['end']}", text
    )
    if not count:
        raise ValueError("The marks of the tables are missing.")
    return filled


def _to_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    for place in map(Path, sys.argv[1:]):
        whole = WHOLE.get(place.name)
        text = whole() if whole else fill_tables(place.read_text(encoding="utf-8"))
        place.write_text(text, encoding="utf-8")
