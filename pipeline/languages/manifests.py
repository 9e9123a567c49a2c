"""Reads a repository's manifests: tables, sections, names and versions."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigError
from functools import lru_cache
from typing import Any, Final, cast

MOST_DOTS: Final = 1000
"""Of one line: the TOML reader takes quadratic time for a dotted key."""
MOST_SQUARES: Final = 100_000_000
"""The sum of the squares of the dots of all lines: that reader takes about a second for these."""
MOST_LINES: Final = 5_000
"""Of one INI file: its reader takes quadratic time for lines that it cannot read."""


def parse_toml(text: str) -> dict[str, Any]:
    """Empty for a file that is not TOML; pip will report what is wrong with it."""
    dots = [line.count(".") for line in text.split("\n")]
    if max(dots) > MOST_DOTS or sum(count * count for count in dots) > MOST_SQUARES:
        return {}
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):  # also a number of 5,000 digits, and nested arrays
        return {}


def parse_json(text: str) -> dict[str, Any]:
    """The object in a file; empty for a file without one."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


@lru_cache(maxsize=8)
def parse_ini(text: str) -> ConfigParser:
    """To be read only: callers share it. Empty for a file that cannot be parsed."""
    parser = ConfigParser(interpolation=None, strict=False)
    if text.count("\n") > MOST_LINES:
        return parser
    try:
        parser.read_string(text)
    except ConfigError:
        return ConfigParser(interpolation=None)
    return parser


def table(document: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """The table at `path`; empty if it does not exist."""
    value: Any = document
    for key in path:
        if not isinstance(value, dict):
            return {}
        value = cast(dict[str, Any], value).get(key)
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def strings(value: Any) -> list[str]:
    """The strings of a list; empty for any other value."""
    if not isinstance(value, list):
        return []
    return [item for item in cast(list[Any], value) if isinstance(item, str)]


def tables(value: Any) -> list[Mapping[str, Any]]:
    """The tables of a list; empty for any other value."""
    if not isinstance(value, list):
        return []
    found = cast(list[Any], value)
    return [cast(dict[str, Any], item) for item in found if isinstance(item, dict)]


def project_of(texts: Mapping[str, str]) -> dict[str, Any]:
    return parse_toml(texts.get("pyproject.toml", ""))


def distribution_name(texts: Mapping[str, str]) -> str | None:
    """The package's name, if a file states it without being run."""
    project = project_of(texts)
    stated = table(project, "project").get("name") or table(project, "tool", "poetry").get("name")
    if isinstance(stated, str):
        return stated
    for name, pattern in (
        ("PKG-INFO", r"^Name:\s*(\S+)"),
        ("setup.cfg", r"^name\s*=\s*(\S+)"),
    ):
        match = re.search(pattern, texts.get(name, ""), re.MULTILINE)
        if match:
            return match[1]
    return None


def guess_name(texts: Mapping[str, str]) -> str:
    """The package's name, also where only setup.py states it; empty without one."""
    match = re.search(r"""(?i)\bname\s*=\s*["']([\w.-]+)["']""", texts.get("setup.py", ""))
    return distribution_name(texts) or (match[1] if match else "")


def is_package(project: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether the tree can be installed as a package."""
    if "setup.py" in names or {"project", "build-system"} & set(project):
        return True
    return "poetry" in table(project, "tool")


def scm_versions(version: str, name: str | None) -> dict[str, str]:
    """Environment variables that give setuptools_scm, hatch-vcs, pbr, poetry and pdm a version.

    If the package's name is known, the first two do not apply it to dependencies built as well:
    https://setuptools-scm.readthedocs.io/en/latest/overrides/
    """
    suffix = "_FOR_" + re.sub(r"[-_.]+", "_", name).upper() if name else ""
    return {
        f"SETUPTOOLS_SCM_PRETEND_VERSION{suffix}": version,
        "PBR_VERSION": version,
        "POETRY_DYNAMIC_VERSIONING_BYPASS": version,
        "PDM_BUILD_SCM_VERSION": version,
        "UV_DYNAMIC_VERSIONING_BYPASS": version,
    }
