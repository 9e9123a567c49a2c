"""A settings file for a repository that asks for one: every key, none of them set."""

from __future__ import annotations

import textwrap
from typing import Any, Final

from bot.repo_config.layers import EffectiveConfig, list_settings
from bot.repo_config.model import CONFIG_PATHS, RepoConfig
from bot.repo_config.schema import SCHEMA_ROUTE, json_schema, key_description

PATH: Final = CONFIG_PATHS[0]
_WIDTH: Final = 98


def render_file(public_url: str) -> str:
    """The file: valid as it is, and with each `#key: value` the default once its `#` is taken off.

    `public_url` is where `serve` is reached, for the schema; empty: no schema is named.
    """
    root = json_schema()
    address = f"{public_url.rstrip('/')}{SCHEMA_ROUTE}"
    head = [f"# yaml-language-server: $schema={address}"] if public_url else []
    head += [
        "# Nothing is set here yet: each key below has its default.",
        "# To change one, take off the # before it.",
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
    """Of the pull request and its commit."""
    return "Add a settings file for Capuchin"


def pull_body(login: str, marker: str) -> str:
    """The pull request's text."""
    return (
        f"@{login} asked for a settings file. It names every setting with its default, and sets "
        "none: merging it changes nothing. Edit it here or later; a check on each pull request "
        "that edits it tells mistakes at their lines.\n\nI work without this file, too. Close "
        f"this if you do not want it.\n\n{marker}\n"
    )


def proposal_marker(request_id: str) -> str:
    """What the pull request that a command asked for is found by."""
    return f"<!-- capuchin:settings {request_id} -->"


def proposal_opened(number: int) -> str:
    """To who asked for it."""
    return f"I have proposed a settings file in #{number}. I change nothing in it from now on."


def file_exists(path: str) -> str:
    """The repository has a settings file."""
    return f"There is a settings file already: `{path}`. `config` alone tells what is in force."


def cannot_propose() -> str:
    """An empty repository, or one whose rules forbid the push."""
    return (
        "I could not propose a settings file: the repository has no commit yet, or its rules do "
        "not let me push a branch named `capuchin/settings-…`."
    )
