"""A real repository in a folder, for tests that need no server."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

_ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b.c",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b.c",
}


def git(where: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", *args], cwd=where, env=_ENV, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def repository(where: Path, files: Mapping[str, bytes]) -> str:
    """Make a repository with one commit on `main`; its SHA."""
    where.mkdir(parents=True)
    git(where, "init", "--quiet", "--initial-branch=main")
    git(where, "config", "uploadpack.allowAnySHA1InWant", "true")
    return committed(where, files)


def committed(where: Path, files: Mapping[str, bytes]) -> str:
    for name, content in files.items():
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        (where / name).write_bytes(content)
    git(where, "add", "--all")
    git(where, "commit", "--quiet", "--allow-empty", "-m", "x")
    return git(where, "rev-parse", "HEAD")
