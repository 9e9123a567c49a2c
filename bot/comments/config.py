"""What the bot says about a repository's settings file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bot.markdown import code, details, prose
from bot.repo_config.layers import DEFAULT, Effective, Setting, settings
from bot.repo_config.model import CANDIDATES, ConfigProblem


def as_comment(effective: Effective) -> str:
    """The answer to `/capuchin config`: what files set first, the defaults folded."""
    every = settings(effective)
    told = [one for one in every if one.source != DEFAULT]
    usual = [one for one in every if one.source == DEFAULT]
    if not told:
        said = f"No file sets anything here. I look for {_places()}, on the default branch."
        return f"{said}\n\n{details('The defaults', _listed(usual))}\n"
    parts = [f"This is set here; a key that no file sets has its default.\n\n{_listed(told)}"]
    if usual:
        parts.append(details("The defaults of the other keys", _listed(usual)))
    return "\n\n".join(parts) + "\n"


def as_lines(effective: Effective) -> str:
    """One line a key: what it is, and which file says so."""
    every = settings(effective)
    key = max(len(one.key) for one in every)
    return "".join(f"{one.key.ljust(key)}  {one.value}  # {one.source}\n" for one in every)


def checked_title(mistakes: int) -> str:
    """Of the check run on a pull request that edits the settings file."""
    if not mistakes:
        return "Valid"
    return "1 mistake" if mistakes == 1 else f"{mistakes} mistakes"


def checked(found: Mapping[str, Sequence[ConfigProblem]]) -> str:
    """The check run's text: each file with its mistakes."""
    parts: list[str] = []
    for path, mistakes in found.items():
        lines = [f"- line {one.line}: {prose(one.message, 600)}" for one in mistakes[:50]]
        parts.append(f"{code(path)} {'has mistakes:' if lines else 'is valid.'}")
        parts += ["\n".join(lines)] if lines else []
    if any(found.values()):
        parts.append("While a file with mistakes is on the default branch I begin no work.")
    return "\n\n".join(parts)


def _listed(some: list[Setting]) -> str:
    # A list and no table: on a phone a table of three columns is wider than the screen.
    return "\n".join(
        f"- {code(one.key)}: {code(one.value)}"
        + ("" if one.source == DEFAULT else f", from {code(one.source)}")
        for one in some
    )


def _places() -> str:
    first, second = (f"`{path}`" for path in CANDIDATES)
    return (
        f"{first}, then {second}, and for the organisation's defaults in its `.github` repository"
    )
