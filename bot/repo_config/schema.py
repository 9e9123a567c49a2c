"""The JSON Schema of a repository's settings file."""

from __future__ import annotations

from typing import Any, Final

from bot.repo_config.model import RepoConfig

SCHEMA_ROUTE: Final = "/schema/capuchin.json"
"""Its path on `capuchin serve`."""


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the file."""
    found = RepoConfig.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **found,
        "title": "Capuchin's settings of a repository",
    }


def key_description(root: dict[str, Any], key: str) -> str:
    """A key's description on one line. `root` is `json_schema()`; dots join nested keys."""
    return " ".join(str(_schema_node(root, key).get("description", "")).split())


def _schema_node(root: dict[str, Any], key: str) -> dict[str, Any]:
    node = root
    for part in key.split("."):
        node = node["properties"][part]
        if "$ref" in node:
            node = root["$defs"][node["$ref"].rpartition("/")[2]]
    return node
