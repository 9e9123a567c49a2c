"""The Debian packages that a repository needs before its code is installed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sandbox.environment.manifests import strings, table

COMPILING_BACKENDS: Final = (
    "mesonpy",
    "scikit_build_core",
    "skbuild",
    "maturin",
    "setuptools_rust",
)
COMPILING_REQUIREMENTS: Final = re.compile(
    r"^(cython|numpy|pybind11|cffi|nanobind|scikit-build|scikit-build-core|meson-python|maturin"
    r"|setuptools-rust|mypy)\b",
    re.IGNORECASE,
)
EXTENSION: Final = re.compile(
    r"\bext_modules\b|Extension\s*\(|\bcythonize\b|\bcffi_modules\b|\brust_extensions\b|\bskbuild\b"
)
CYTHON: Final = re.compile(r"(?!(.*/)?(tests?|docs?|examples?|benchmarks?)/).*\.pyx")
FORTRAN: Final = re.compile(r".*\.[fF](or|77|90|95|03|08)?")
SOURCES: Final = re.compile(rf".*\.(c|cc|cpp|cxx|pyx|rs)|{FORTRAN.pattern}")
CARGO: Final = "cargo-web|cargo"
"""Each brings its compiler; the first is the new one that browsers need, where Debian has it."""
COMPILER: Final = ("build-essential", "pkg-config", "python3-dev")


def find_system_packages(
    names: Sequence[str],
    texts: Mapping[str, str],
    project: Mapping[str, Any],
    named: Iterable[str],
) -> tuple[str, ...]:
    """Find a compiler for a package with parts to compile, and the libraries that its CI names.

    CI machines come with compilers, so that no file needs to name one.
    """
    build = table(project, "build-system")
    requires = strings(build.get("requires"))
    backend = str(build.get("build-backend") or "")
    compiled = any(SOURCES.fullmatch(name) for name in names)
    asks = (
        backend.split(".")[0] in COMPILING_BACKENDS
        or any(COMPILING_REQUIREMENTS.match(one) for one in requires)
        or bool(EXTENSION.search(texts.get("setup.py", "")))
        or bool(table(project, "tool", "setuptools").get("ext-modules"))
        # A backend in the tree wraps another one; nobody but it names what it compiles.
        or bool(build.get("backend-path"))
        or any(CYTHON.fullmatch(name) for name in names)
    )
    if not (compiled and asks):
        return tuple(dict.fromkeys(named))
    found = [*COMPILER]
    if any(FORTRAN.fullmatch(name) for name in names):
        found.append("gfortran")
    if any(name.endswith(".rs") for name in names):
        found.append(CARGO)
    return tuple(dict.fromkeys([*found, *named]))
