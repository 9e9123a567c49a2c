"""A proposed settings file: every key as a comment, with its default. And the texts around it."""

from __future__ import annotations

import textwrap
from typing import Any, Final

from bot.repo_config.layers import EffectiveConfig, list_settings
from bot.repo_config.model import CONFIG_PATHS, RepoConfig
from bot.repo_config.schema import SCHEMA_ROUTE, json_schema, key_description

PATH: Final = CONFIG_PATHS[0]
_WIDTH: Final = 98


def render_file(public_url: str) -> str:
    """The file: valid as it is; removing the `#` of a `#key: value` line sets that default.

    `public_url` is the address of `serve`, which serves the schema; empty omits the schema.
    """
    root = json_schema()
    address = f"{public_url.rstrip('/')}{SCHEMA_ROUTE}"
    head = [f"# yaml-language-server: $schema={address}"] if public_url else []
    head += [
        "# No key is set yet: each line below shows a default.",
        "# To change one, remove the # in front of it.",
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
    """The title of the pull request and of its commit."""
    return "Add a settings file for Capuchin"


def pull_body(login: str, marker: str) -> str:
    """The pull request's body."""
    return (
        f"@{login} asked for a settings file. It lists every setting with its default as a "
        "comment, so merging it changes nothing. You can edit it here or later: a check on each "
        "pull request that edits it marks errors at their lines.\n\nI also work without this file. "
        f"Close this pull request if you do not want it.\n\n{marker}\n"
    )


def proposal_marker(request_id: str) -> str:
    """Identifies the pull request that a command requested; invisible on GitHub."""
    return f"<!-- capuchin:settings {request_id} -->"


def proposal_opened(number: int) -> str:
    """To the person who requested it."""
    return f"I have proposed a settings file in #{number}. I will not change that pull request."


def file_exists(path: str) -> str:
    """The repository already has a settings file."""
    return f"A settings file already exists: `{path}`. `config` alone shows the current settings."


def cannot_propose() -> str:
    """The reply for an empty repository, or one whose rules forbid the push."""
    return (
        "I could not propose a settings file: the repository has no commits yet, or its rules do "
        "not let me push a branch named `capuchin/settings-…`."
    )
