"""Reads a repository's manifests: tables, sections, names and versions."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from typing import Any, cast

UNKNOWN_VERSION = "99.0.0"
"""For packages that read their version from git, which the sandbox lacks; high, to satisfy
requirements of the form "at least"."""


def parse_toml(text: str) -> dict[str, Any]:
    """Empty for a file that is not TOML; pip will report what is wrong with it."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


def parse_json(text: str) -> dict[str, Any]:
    """The object in a file; empty for a file without one."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def parse_ini(text: str) -> ConfigParser:
    """Empty for a file that cannot be parsed."""
    parser = ConfigParser(interpolation=None, strict=False)
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


def release_version(metadata: str) -> str:
    """The version that a source release states in its PKG-INFO."""
    match = re.search(r"^Version:\s*([0-9][0-9A-Za-z.!+]*)\s*$", metadata, re.MULTILINE)
    return match[1] if match else UNKNOWN_VERSION


def distribution_name(texts: Mapping[str, str]) -> str | None:
    """The package's name, if a file states it without being run."""
    project = project_of(texts)
    stated = table(project, "project").get("name") or table(project, "tool", "poetry").get("name")
    if isinstance(stated, str):
        return stated
    for name, pattern in (("PKG-INFO", r"^Name:\s*(\S+)"), ("setup.cfg", r"^name\s*=\s*(\S+)")):
        match = re.search(pattern, texts.get(name, ""), re.MULTILINE)
        if match:
            return match[1]
    return None


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
    }
