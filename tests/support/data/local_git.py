"""A real repository in a folder, for tests that need no server."""

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


def git(where: Path, *args: str, given: bytes = b"") -> str:
    """What git prints in the folder `where`, or in a bare repository."""
    done = subprocess.run(
        ["git", *args], cwd=where, env=_ENV, input=given, check=True, capture_output=True
    )
    return done.stdout.decode().strip()


def repository(where: Path, files: Mapping[str, bytes | str]) -> str:
    """Make a repository with one commit on `main`; its SHA."""
    where.mkdir(parents=True, exist_ok=True)
    git(where, "init", "--quiet", "--initial-branch=main")
    git(where, "config", "uploadpack.allowAnySHA1InWant", "true")
    return committed(where, files)


def committed(where: Path, files: Mapping[str, bytes | str]) -> str:
    for name, content in files.items():
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        (where / name).write_bytes(content.encode() if isinstance(content, str) else content)
    git(where, "add", "--all")
    git(where, "commit", "--quiet", "--allow-empty", "-m", "x")
    return git(where, "rev-parse", "HEAD")
