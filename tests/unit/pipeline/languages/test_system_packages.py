from __future__ import annotations

import pytest

from pipeline.languages.python.install import CARGO, COMPILER, find_system_packages

WRAPPED = {"build-system": {"build-backend": "ours.hooks", "backend-path": ["packaging"]}}


MATURIN = {"build-system": {"build-backend": "maturin", "requires": ["maturin>=1"]}}
SKBUILD = {"build-system": {"build-backend": "scikit_build_core.build"}}
MESON = {"build-system": {"build-backend": "mesonpy", "requires": ["meson-python"]}}
RUST = {"build-system": {"requires": ["setuptools", "setuptools-rust"]}}


@pytest.mark.parametrize(
    ("names", "script", "project", "found"),
    [
        (["src/lib.rs"], "", MATURIN, (*COMPILER, CARGO)),
        (["src/lib.rs"], "", RUST, (*COMPILER, CARGO)),
        (["src/lib.rs", "setup.py"], "rust_extensions=[RustExtension('a')]", {},
         (*COMPILER, CARGO)),
        (["setup.py", "a.cpp"], "from skbuild import setup", {}, COMPILER),
        (["a.cpp"], "", SKBUILD, COMPILER),
        (["a.f90"], "", MESON, (*COMPILER, "gfortran")),
        (["a.F", "b.c"], "", MESON, (*COMPILER, "gfortran")),
        (["a.py"], "", MATURIN, ()),
    ],
)  # fmt: skip
def test_each_backend_gets_what_compiles_its_sources(
    names: list[str], script: str, project: dict[str, object], found: tuple[str, ...]
) -> None:
    assert find_system_packages(names, {"setup.py": script}, project, []) == found


@pytest.mark.parametrize(
    ("names", "project", "compiler"),
    [
        (["yarl/_quoting_c.pyx"], WRAPPED, True),
        (["msgpack/_cmsgpack.pyx", "setup.py"], {}, True),
        (["core/fast.c"], WRAPPED, True),
        (["core/slow.py"], WRAPPED, False),
        (["tests/data/example.pyx", "docs/some.c"], {}, False),
    ],
)
def test_a_compiler_is_there_for_what_a_backend_compiles(
    names: list[str], project: dict[str, object], compiler: bool
) -> None:
    found = find_system_packages(names, {}, project, ["libxml2-dev"])
    assert found == ((*COMPILER, "libxml2-dev") if compiler else ("libxml2-dev",))
