"""The JSON Schema of the settings file, by which editors check it as `parse_config` does.

`errorMessage` and `doNotSuggest` are read by the language servers for YAML and JSON, beyond the
standard: https://github.com/redhat-developer/yaml-language-server.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from bot.repo_config.expected import Node, find_homes, find_node
from bot.repo_config.mistakes import REMOVED, explain_home, explain_removed
from bot.repo_config.model import build_schema

SCHEMA_ROUTE: Final = "/schema/capuchin.json"
"""Its path on `capuchin serve`."""


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the file."""
    found = deepcopy(build_schema())
    homes = {name: _refuse(explain_home(name, home)) for name, home in find_homes(found).items()}
    found["properties"] |= {name: _refuse(explain_removed(name)) for name in REMOVED} | homes
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **found,
        "title": "Capuchin's settings of a repository",
    }


def _refuse(message: str) -> Node:
    # Without a value, a key is ignored.
    return {"type": "null", "errorMessage": message, "doNotSuggest": True}


def key_description(root: Node, key: str) -> str:
    """A key's description on one line. `root` is `json_schema()`; dots join nested keys."""
    return " ".join(str(find_node(root, key.split(".")).get("description", "")).split())
