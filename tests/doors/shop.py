"""A small repository with a bug, its issue, and edits of it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

TITLE: Final = "total() subtracts"
BODY: Final = "`total(1, 2)` in shop/till.py gives -1 and not 3."
TILL: Final = "def total(a, b):\n    return a - b\n\n\ndef count(items):\n    return len(items)\n"
FILES: Final[Mapping[str, str]] = {
    "shop/__init__.py": "",
    "shop/till.py": TILL,
    "tests/test_till.py": (
        "from shop.till import count\n\n\ndef test_count():\n    assert count([1, 2]) == 2\n"
    ),
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n',
    ".github/capuchin.yml": ("version: 1\nsamples: 2\n"),
}
WITHOUT_PYTHON: Final[Mapping[str, str]] = {"index.html": "x\n"}
"""Of which every run ends soon, without a fix."""
SCRIPT: Final = (
    "import sys\nfrom shop.till import total\n\nsys.exit(0 if total(1, 2) == 3 else 2)\n"
)
"""Ends with 0 where the issue is fixed and with 2 where not."""


def diff(line: str) -> str:
    """An edit of the line with the bug."""
    return (
        "diff --git a/shop/till.py b/shop/till.py\n--- a/shop/till.py\n+++ b/shop/till.py\n"
        f"@@ -1,4 +1,4 @@\n def total(a, b):\n-    return a - b\n+    {line}\n \n \n"
    )


def repository(folder: Path, files: Mapping[str, str]) -> str:
    """A repository with one commit of `files`, the same each time; the commit's SHA."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "Begin")
    return git(folder, "rev-parse", "HEAD")


def git(folder: Path, *words: str) -> str:
    """What git prints, as nobody in particular and at a fixed time."""
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent"}
    for role in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{role}_NAME": "a", f"GIT_{role}_EMAIL": "a@b.c"}
        env[f"GIT_{role}_DATE"] = "2024-01-01T00:00:00Z"
    done = subprocess.run(
        ["git", *words], cwd=folder, env=env, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()
