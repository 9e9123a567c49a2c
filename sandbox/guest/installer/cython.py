"""Translates Cython sources to the C that a build expects; some repositories do that before it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from sandbox.guest.installer.requirements import name_of
from sandbox.guest.installer.uv import UV, Uv

LARGEST = 1_000_000
_SOURCE = re.compile(r"""["']((?:\w[\w-]*/)*\w[\w-]*)\.(c|cpp)["']""", re.ASCII)
_BUILD_FILES = ("setup.py", "pyproject.toml")


def translate_cython(uv: Uv, checkout: Path, requirements: Sequence[str]) -> None:
    """Make each C file that the build names and that is there in Cython alone.

    `requirements` may say which Cython. Where it fails, the build itself says what it lacks.
    """
    cython = next((one for one in requirements if name_of(one) == "cython"), "cython")
    for source, suffix in find_untranslated(checkout):
        words = ["tool", "run", *uv.dates(None), "--from", cython, "cython"]
        words += [*(["--cplus"] if suffix == "cpp" else []), f"{source}.pyx"]
        done, _ = uv.run([UV, *words], cwd=str(checkout))
        if done:
            uv.record(words)


def find_untranslated(checkout: Path) -> list[tuple[str, str]]:
    """Paths without their suffix, and the suffix that the build expects, `c` or `cpp`."""
    texts = (_read(checkout / name) for name in _BUILD_FILES)
    named = dict.fromkeys(pair for text in texts for pair in _SOURCE.findall(text))
    return [
        (stem, suffix)
        for stem, suffix in named
        if (checkout / f"{stem}.pyx").is_file() and not (checkout / f"{stem}.{suffix}").exists()
    ]


def _read(path: Path) -> str:
    if not path.is_file() or path.stat().st_size > LARGEST:
        return ""
    return path.read_text(encoding="utf-8", errors="replace")
