"""A repository's settings as people meet them: as a comment, as lines of text, as a schema."""

from __future__ import annotations

from typing import Any, Final

from bot.markdown import code
from bot.repo_config.layers import EffectiveConfig, list_settings
from bot.repo_config.model import RepoConfig

SCHEMA_ROUTE: Final = "/schema/capuchin.json"
"""Where `capuchin serve` has it."""


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the file."""
    found = RepoConfig.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **found,
        "title": "Capuchin's settings of a repository",
    }


def render_table() -> str:
    """Every key as a Markdown table, from the model."""
    return "\n".join(
        ["| Key | Default | What it sets |", "|---|---|---|", *_table_rows(json_schema())]
    )


def key_description(root: dict[str, Any], key: str) -> str:
    """What a key sets, on one line; `root` is `json_schema()`, nested keys are joined by dots."""
    return " ".join(str(_schema_node(root, key).get("description", "")).split())


def _table_rows(root: dict[str, Any]) -> list[str]:
    rows: list[str] = []
    for one in list_settings(EffectiveConfig(RepoConfig(), {})):
        text = key_description(root, one.key).replace("|", "\\|")
        rows.append(f"| `{one.key}` | {code(one.value)} | {text} |")
    return rows


def _schema_node(root: dict[str, Any], key: str) -> dict[str, Any]:
    node = root
    for part in key.split("."):
        node = node["properties"][part]
        if "$ref" in node:
            node = root["$defs"][node["$ref"].rpartition("/")[2]]
    return node
