"""A proposed settings file: every key as a comment, with its default. And the texts around it."""

from __future__ import annotations

import json
import textwrap
from typing import Any, Final

from bot.markdown import block
from bot.repo_config.layers import EffectiveConfig, list_settings
from bot.repo_config.model import CONFIG_PATHS, RepoConfig
from bot.repo_config.schema import SCHEMA_ROUTE, json_schema, key_description
from bot.types import Login
from pipeline.environment.memory import WorkingAttempt

PATH: Final = CONFIG_PATHS[0]
_WIDTH: Final = 98


def render_file(public_url: str, working: WorkingAttempt | None = None) -> str:
    """The file: valid as it is; removing the `#` of a `#key: value` line sets that default.

    `public_url` is the address of `serve`, which serves the schema; empty omits the schema.
    `working` are a model's commands that installed the repository: the file sets them.
    """
    root = json_schema()
    address = f"{public_url.rstrip('/')}{SCHEMA_ROUTE}"
    head = [f"# yaml-language-server: $schema={address}"] if public_url else []
    head += [
        "# No key is set yet: each line below shows a default."
        if working is None
        else "# Only what follows is set: each line after it shows a default.",
        "# To change one, remove the # in front of it.",
        "version: 1",
        *(["", *_setup_lines(working)] if working else []),
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


def _setup_lines(working: WorkingAttempt) -> list[str]:
    """The keys that install the repository as `working` did; JSON strings are YAML strings."""
    return [
        "# With these commands, which a model wrote, the repository could be imported and its",
        "# tests ran.",
        *([f"python: {json.dumps(working.python)}"] if working.python else []),
        "setup:",
        *(f"  - {json.dumps(command)}" for command in working.setup),
    ]


def _comment_lines(root: dict[str, Any], key: str, *, nested: bool) -> list[str]:
    indent = "# " if not nested else "#   # "
    return ([] if nested else [""]) + textwrap.wrap(
        key_description(root, key), _WIDTH, initial_indent=indent, subsequent_indent=indent
    )


def pull_title() -> str:
    """The title of the pull request and of its commit."""
    return "Add a settings file for Capuchin"


def pull_body(login: Login, marker: str, *, sets_up: bool = False) -> str:
    """The pull request's body; `sets_up`: the file says how the repository is installed."""
    effect = (
        "Its `setup` holds the commands with which the environment worked; a model wrote them, so "
        "please read them. Every other setting is a comment with its default."
        if sets_up
        else "It lists every setting with its default as a comment, so merging it changes nothing."
    )
    return (
        f"@{login} asked for a settings file. {effect} You can edit it here or later: a check on "
        "each pull request that edits it marks errors at their lines.\n\nI also work without this "
        f"file. Close this pull request if you do not want it.\n\n{marker}\n"
    )


def proposal_marker(request_id: str) -> str:
    """Identifies the pull request that a command requested; invisible on GitHub."""
    return f"<!-- capuchin:settings {request_id} -->"


def proposal_opened(number: int) -> str:
    """To the person who requested it."""
    return f"I have proposed a settings file in #{number}. I will not change that pull request."


def file_exists(path: str, working: WorkingAttempt | None = None) -> str:
    """The repository already has a settings file; `working` are commands that it may lack."""
    text = f"A settings file already exists: `{path}`. `config` alone shows the current settings."
    if working is None:
        return text
    lines = block("\n".join(_setup_lines(working)), 6000, "yaml")
    return f"{text} This would spare me the search for an environment that works:\n\n{lines}"


def cannot_propose() -> str:
    """The reply for an empty repository, or one whose rules forbid the push."""
    return (
        "I could not propose a settings file: the repository has no commits yet, or its rules do "
        "not let me push a branch named `capuchin/settings-…`."
    )
