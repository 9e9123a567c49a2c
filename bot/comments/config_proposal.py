"""The settings file that `/capuchin config propose` opens a pull request with: no key is set."""

from __future__ import annotations

import textwrap
from typing import Any, Final

from bot.repo_config.layers import EffectiveConfig, list_settings
from bot.repo_config.model import CONFIG_PATHS, RepoConfig
from bot.repo_config.schema import SCHEMA_ROUTE, json_schema, key_description

PATH: Final = CONFIG_PATHS[0]
_WIDTH: Final = 98


def render_file(public_url: str) -> str:
    """The file. It is valid, and stays valid with any `#` before a key removed.

    `public_url` is the address of `serve`, which has the schema; empty: the file names no schema.
    """
    root = json_schema()
    address = f"{public_url.rstrip('/')}{SCHEMA_ROUTE}"
    head = [f"# yaml-language-server: $schema={address}"] if public_url else []
    head += [
        "# No key is set yet: each has the default shown.",
        "# To change a key, remove the # before it.",
        "version: 1",
    ]
    mapping = ""
    lines: list[str] = []
    for one in list_settings(EffectiveConfig(RepoConfig(), {})):
        if one.key == "version":
            continue
        outer, _, inner = one.key.rpartition(".")
        if outer and outer != mapping:
            lines += ["", f"#{outer}:"]
        mapping = outer
        lines += _comment_lines(root, one.key, nested=bool(outer))
        lines.append(f"#  {inner}: {one.value}" if outer else f"#{one.key}: {one.value}")
    return "\n".join([*head, *lines]) + "\n"


def _comment_lines(root: dict[str, Any], key: str, *, nested: bool) -> list[str]:
    indent = "# " if not nested else "#   # "
    return ([] if nested else [""]) + textwrap.wrap(
        key_description(root, key), _WIDTH, initial_indent=indent, subsequent_indent=indent
    )


def pull_title() -> str:
    """The title of the pull request and its commit."""
    return "Add a settings file for Capuchin"


def pull_body(login: str, marker: str) -> str:
    """The pull request's text."""
    return (
        f"@{login} asked for a settings file. It lists every key with its default and sets none, so "
        "merging it changes nothing. Edit it here or later; a check run on each pull request that "
        "edits it reports mistakes at their lines.\n\nI work without this file, too. Close this "
        f"pull request if you do not want it.\n\n{marker}\n"
    )


def proposal_marker(request_id: str) -> str:
    """The HTML comment by which the pull request of a command is found again."""
    return f"<!-- capuchin:settings {request_id} -->"


def proposal_opened(number: int) -> str:
    """The reply to the command."""
    return f"I proposed a settings file in #{number}. I will not change it again."


def file_exists(path: str) -> str:
    """The reply if the repository has a settings file."""
    return (
        f"There is a settings file already: `{path}`. `config` alone shows the effective settings."
    )


def cannot_propose() -> str:
    """The reply for an empty repository, or one whose rules forbid the push."""
    return (
        "I could not propose a settings file: the repository has no commit yet, or its rules do "
        "not allow me to push a branch named `capuchin/settings-…`."
    )
