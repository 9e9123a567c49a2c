"""Runs the git binary, isolated from the user's configuration."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bot.localhub.errors import GitCommandFailed

TIMEOUT_S = 60
"""Far above the time of any command on a repository of this hub."""


def git_binary() -> str:
    """The path of git.

    Raises:
        GitCommandFailed: it is not installed; the text says what to do.
    """
    found = shutil.which("git")
    if found is None:
        raise GitCommandFailed("git is not on PATH; install it (Debian: apt-get install git)")
    return found


def git_environment(**extra: str) -> dict[str, str]:
    """An environment without the caller's variables and configuration."""
    return {
        "PATH": os.defpath,
        "HOME": os.devnull,
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        **extra,
    }


def run_git(
    folder: Path,
    *arguments: str,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    allowed_codes: tuple[int, ...] = (),
) -> bytes:
    """Run git and return its output.

    Raises:
        GitCommandFailed: the exit code is neither 0 nor one of `allowed_codes`.
    """
    done = subprocess.run(
        [git_binary(), "-C", str(folder), *arguments],
        input=stdin,
        capture_output=True,
        env=git_environment(**(environment or {})),
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode not in (0, *allowed_codes):
        complaint = done.stderr.decode("utf-8", "replace").strip()
        raise GitCommandFailed(f"git {arguments[0]} ended with {done.returncode}: {complaint}")
    return done.stdout
