"""The plan that the host sends, and what an earlier layer recorded."""

from __future__ import annotations

import datetime
import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

ENVIRONMENT = "/opt/env"
PYTHON = ENVIRONMENT + "/bin/python"
RECORD = ENVIRONMENT + "/capuchin-installation.json"
NO_VERSION = "0.1.dev1"
"""The version that setuptools_scm itself reports for a repository without tags."""
GRACE = datetime.timedelta(days=14)
"""What a commit needs may come out a little later: its maintainers had it already."""
MATURE = datetime.timedelta(days=180)
"""Wheels for a new Python lag this long behind it."""
WHEELS = datetime.timedelta(days=270)


@dataclass
class Plan:
    """What to install, in the terms of the repository's files."""

    attempt: str = ""
    root: str = ""
    """The folder of the project below the checkout; empty for the checkout itself."""
    members: list[str] = field(default_factory=list[str])
    """Folders below it that hold packages of their own, as in a workspace of uv."""
    siblings: list[str] = field(default_factory=list[str])
    """Folders, from it, of packages of the same tree that it takes by their path."""
    others: list[str] = field(default_factory=list[str])
    """Folders, from it, of the tree's other packages: installed where that changes nothing."""
    name: str = ""
    package: bool = True
    """Whether the tree is a package that can be installed."""
    backend: str = ""
    """The build backend that pyproject.toml names."""
    build_requires: list[str] = field(default_factory=list[str])
    setup_py: bool = False
    as_of: str = ""
    """The commit's day; empty to install the newest of everything."""
    commit_day: str = ""
    """The same, also where the newest of everything is installed."""
    extras: list[str] = field(default_factory=list[str])
    files: list[str] = field(default_factory=list[str])
    """Requirement files of the tree for its tests."""
    requirements: list[str] = field(default_factory=list[str])
    elsewhere: dict[str, str] = field(default_factory=dict[str, str])
    """By name: why a requirement is never asked of the index, as a clause."""
    pytest: bool = True
    locked: str = ""
    """A requirement file among the incoming ones that names everything, with hashes."""
    uv_export: list[str] = field(default_factory=list[str])
    """Arguments of `uv export` for a uv.lock; empty without one."""
    released: list[list[str]] = field(default_factory=list[list[str]])
    """Each Python `3.N` with the day on which it came out."""


def read_plan(path: str) -> Plan:
    return Plan(**json.loads(Path(path).read_text(encoding="utf-8")))


def read_record() -> dict[str, Any]:
    """What an earlier layer of this environment recorded; empty without one."""
    try:
        found: Any = json.loads(Path(RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def write_record(record: dict[str, Any]) -> None:
    new = Path(RECORD + ".new")
    new.write_text(json.dumps(record), encoding="utf-8")
    new.replace(RECORD)


def read_python_version() -> str:
    """The environment's `3.N.P`."""
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    return subprocess.check_output([PYTHON, "-c", code], universal_newlines=True).strip()


def latest_day(plan: Plan, version: str) -> datetime.date | None:
    """The day after which nothing on the index counts; None for no such day.

    A few days after the commit, but not before there were wheels for this Python.
    """
    if not plan.as_of:
        return None
    day = datetime.date.fromisoformat(plan.as_of)
    latest = day + GRACE
    out = find_release(plan, version)
    if out and out > day - MATURE:
        latest = max(latest, out + WHEELS)
    return None if latest >= datetime.datetime.now(datetime.UTC).date() else latest


def nearest_day(plan: Plan, version: str) -> datetime.date | None:
    """The day to try before `latest_day`, with wheels alone; None for no such day.

    If this Python was new at the commit, many packages already had wheels for it, and the versions
    closest to the commit fit it best.
    """
    latest, out = latest_day(plan, version), find_release(plan, version)
    if latest is None or out is None:
        return None
    day = datetime.date.fromisoformat(plan.as_of)
    return day + GRACE if out <= day and day + GRACE < latest else None


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


def find_release(plan: Plan, version: str) -> datetime.date | None:
    """The day on which Python `version`, `3.N` or `3.N.P`, came out; None if it is not known."""
    released = {one[0]: one[1] for one in plan.released}.get(".".join(version.split(".")[:2]))
    return datetime.date.fromisoformat(released) if released else None
