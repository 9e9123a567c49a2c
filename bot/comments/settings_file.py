"""Comments and checks on a repository's settings file, and the proposed file."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Final

from bot.comments.unpublished import publish_reason
from bot.data.failure import FailureFacts
from bot.data.run import Login
from bot.repo_config.model import (
    CONFIG_PATHS,
    DEFAULT_SOURCE,
    MAX_PROBLEMS,
    SCHEMA_ROUTE,
    ConfigProblem,
    EffectiveConfig,
    RepoConfig,
    Setting,
    json_schema,
    key_description,
    list_settings,
)
from bot.safe_text import block, code, details, prose
from pipeline.environment.prepare import WorkingAttempt
from prompts.text import pluralize


def render_config(effective: EffectiveConfig) -> str:
    """The answer to `/capuchin config`: keys that files set first, the defaults folded."""
    every = list_settings(effective)
    explicit = [one for one in every if one.source != DEFAULT_SOURCE]
    usual = [one for one in every if one.source == DEFAULT_SOURCE]
    if not explicit:
        first, second = CONFIG_PATHS
        text = (
            f"No settings file was found. I look for `{first}`, then `{second}`, on the default "
            "branch, and for the organisation's defaults in its `.github` repository."
        )
        return f"{text}\n\n{details('Defaults', _render_settings(usual))}\n"
    parts = [
        "These settings come from files; all other keys have their defaults.\n\n"
        + _render_settings(explicit)
    ]
    if usual:
        parts.append(details("Defaults of the other keys", _render_settings(usual)))
    return "\n\n".join(parts) + "\n"


def render_config_lines(effective: EffectiveConfig) -> str:
    every = list_settings(effective)
    key = max(len(one.key) for one in every)
    return "".join(f"{one.key.ljust(key)}  {one.value}  # {one.source}\n" for one in every)


def check_title(mistakes: Sequence[int]) -> str:
    total = sum(min(each, MAX_PROBLEMS) for each in mistakes)
    if not total:
        return "Valid"
    more = any(each > MAX_PROBLEMS for each in mistakes)
    return f"{'More than ' if more else ''}{pluralize(total, 'error')}"


def check_summary(found: Mapping[str, Sequence[ConfigProblem]]) -> str:
    parts: list[str] = []
    for path, mistakes in found.items():
        lines = [f"- line {one.line}: {prose(one.message, 600)}" for one in mistakes]
        parts.append(f"{code(path)} {'has errors:' if lines else 'is valid.'}")
        parts += ["\n".join(lines)] if lines else []
    if any(found.values()):
        parts.append("I start no work while a file with errors is on the default branch.")
    return "\n\n".join(parts)


def _render_settings(some: list[Setting]) -> str:
    # A list instead of a table: three columns are wider than the screen of a phone.
    return "\n".join(
        f"- {code(one.key)}: {code(one.value)}"
        + ("" if one.source == DEFAULT_SOURCE else f", from {code(one.source)}")
        for one in some
    )


PATH: Final = CONFIG_PATHS[0]


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
        else "# Only the first keys are set: each line after them shows a default.",
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
        lines += [] if outer else [""]
        indent = "#   # " if outer else "# "
        lines += textwrap.wrap(
            key_description(root, one.key), 98, initial_indent=indent, subsequent_indent=indent
        )
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


PULL_TITLE: Final = "Add a settings file for Capuchin"


def pull_body(login: Login, marker: str, *, sets_up: bool = False) -> str:
    """The pull request's body; `sets_up`: the file contains installation commands."""
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


def file_exists(path: str, working: WorkingAttempt | None = None) -> str:
    """The repository already has a settings file; `working` are commands that it may lack."""
    text = f"A settings file already exists: `{path}`. `config` alone shows the current settings."
    if working is None:
        return text
    lines = block("\n".join(_setup_lines(working)), 6000, "yaml")
    return f"{text} These lines would save me the search for an environment:\n\n{lines}"


_NOT_PROPOSED: Final = "I could not propose a settings file"


def proposal_refused(facts: FailureFacts, text: str) -> str:
    """The reply where GitHub does not take the file."""
    folded = details(code(PATH), block(text, 20_000, "yaml"))
    return f"{publish_reason(facts, _NOT_PROPOSED)}\n\nThen ask again, or add it:\n\n{folded}"
