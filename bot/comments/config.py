"""Texts about a repository's settings file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bot.markdown import code, details, prose
from bot.repo_config.layers import DEFAULT_SOURCE, EffectiveConfig, Setting, list_settings
from bot.repo_config.model import CONFIG_PATHS, MAX_PROBLEMS, ConfigProblem
from pipeline.codebase.text import pluralize


def render_config(effective: EffectiveConfig) -> str:
    """The answer to `/capuchin config`: keys that files set first, the defaults folded."""
    every = list_settings(effective)
    explicit = [one for one in every if one.source != DEFAULT_SOURCE]
    usual = [one for one in every if one.source == DEFAULT_SOURCE]
    if not explicit:
        text = f"No settings file was found. I look for {_paths_sentence()}, on the default branch."
        return f"{text}\n\n{details('Defaults', _render_settings(usual))}\n"
    parts = [
        "These settings come from files; all other keys have their defaults.\n\n"
        + _render_settings(explicit)
    ]
    if usual:
        parts.append(details("Defaults of the other keys", _render_settings(usual)))
    return "\n\n".join(parts) + "\n"


def render_config_lines(effective: EffectiveConfig) -> str:
    """One line for each key: its value, and the file that sets it."""
    every = list_settings(effective)
    key = max(len(one.key) for one in every)
    return "".join(f"{one.key.ljust(key)}  {one.value}  # {one.source}\n" for one in every)


def check_title(mistakes: Sequence[int]) -> str:
    """The title of the check run on a pull request that edits settings: errors of each file."""
    total = sum(min(each, MAX_PROBLEMS) for each in mistakes)
    if not total:
        return "Valid"
    more = any(each > MAX_PROBLEMS for each in mistakes)
    return f"{'More than ' if more else ''}{pluralize(total, 'error')}"


def check_summary(found: Mapping[str, Sequence[ConfigProblem]]) -> str:
    """The check run's text: each file with its errors."""
    parts: list[str] = []
    for path, mistakes in found.items():
        lines = [f"- line {one.line}: {prose(one.message, 600)}" for one in mistakes]
        parts.append(f"{code(path)} {'has errors:' if lines else 'is valid.'}")
        parts += ["\n".join(lines)] if lines else []
    if any(found.values()):
        parts.append("I do not start any work while a file with errors is on the default branch.")
    return "\n\n".join(parts)


def _render_settings(some: list[Setting]) -> str:
    # A list instead of a table: three columns are wider than the screen of a phone.
    return "\n".join(
        f"- {code(one.key)}: {code(one.value)}"
        + ("" if one.source == DEFAULT_SOURCE else f", from {code(one.source)}")
        for one in some
    )


def _paths_sentence() -> str:
    first, second = (f"`{path}`" for path in CONFIG_PATHS)
    return (
        f"{first}, then {second}, and for the organisation's defaults in its `.github` repository"
    )
