"""Applies an edit with git, inside the namespaces of an execution of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Final

REJECTED: Final = 3
DIFF_FILE: Final = "/tmp/diff"  # noqa: S108 - a file system of the execution's own
ERROR_FILE: Final = "/tmp/words"  # noqa: S108
PYTHON_SIGNALS: Final = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT)
"""The signals that Python ignores or handles."""
GIT_ENVIRONMENT: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/nonexistent",
    # A path that does not exist: git must not read configuration from the checkout.
    "GIT_DIR": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
}


def make_edit(diffs: Sequence[str]) -> int:
    """Apply `diffs` in order; 0, or `REJECTED` after printing why one is refused."""
    for number, diff in enumerate(diffs, start=1):
        if diff.strip() and apply_diff(diff):
            with open(ERROR_FILE, "rb") as words:  # noqa: PTH123 - pathlib takes long to import
                os.write(1, f"Diff {number} of {len(diffs)}: ".encode() + words.read())
            return REJECTED
    return 0


def apply_diff(diff: str) -> int:
    with open(DIFF_FILE, "wb") as file:  # noqa: PTH123
        file.write(diff.encode("utf-8", "surrogateescape"))
    argv = ["git", "apply", "--whitespace=nowarn", DIFF_FILE]
    redirect = [(os.POSIX_SPAWN_OPEN, 2, ERROR_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
    pid = os.posix_spawnp(
        "git", argv, GIT_ENVIRONMENT, file_actions=redirect, setsigdef=PYTHON_SIGNALS
    )
    return os.waitpid(pid, 0)[1]
