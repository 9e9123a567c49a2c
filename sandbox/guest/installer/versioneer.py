"""Tells versioneer the version of a checkout without history.

versioneer asks `git describe`, or reads the keywords that `git archive` puts into its file
(`export-subst`). Nothing else reaches it, no variable either; so the keywords of a tag are put
there, as they are in the archive of a release:
https://github.com/python-versioneer/python-versioneer/blob/master/details.md
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from sandbox.guest.installer.uv import show_line

REFNAMES = re.compile(
    r"""^([ \t]*git_refnames[ \t]*=[ \t]*)["']\$Format:%[dD]\$["']""", re.MULTILINE
)
PREFIX = re.compile(r"""^[ \t]*(?:cfg\.)?tag_prefix[ \t]*=[ \t]*["']([\w./-]*)["']""", re.MULTILINE)
VERSION = re.compile(r"\d[\w.!+-]*")
MAX_BYTES = 256 * 1024
MAX_DEPTH = 5
SKIPPED = {"node_modules", "build", "dist"}


def expand_keywords(root: Path, version: str) -> list[str]:
    """Put the tag of `version` into versioneer's files below `root`; the changed paths."""
    if not VERSION.fullmatch(version):
        return []
    changed: list[str] = []
    for path in find_version_files(root):
        text = read_text(path)
        if not REFNAMES.search(text):
            continue
        prefix = PREFIX.search(text)
        tag = (prefix[1] if prefix else "") + version
        path.write_text(REFNAMES.sub(rf'\g<1>" (tag: {tag})"', text), encoding="utf-8")
        changed.append(path.relative_to(root).as_posix())
    if changed:
        show_line(f"versioneer is told {version} in {', '.join(changed)}")
    return changed


def find_version_files(root: Path) -> Iterator[Path]:
    """The modules that are named after a version, not too deep."""
    for parent, folders, names in os.walk(root):
        depth = len(Path(parent).relative_to(root).parts)
        kept = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
        folders[:] = sorted(kept) if depth < MAX_DEPTH else []
        for name in sorted(names):
            path = Path(parent, name)
            if "version" in name and name.endswith(".py") and not path.is_symlink():
                yield path


def read_text(path: Path) -> str:
    """The text of a regular file of moderate size; empty for any other."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return ""
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
