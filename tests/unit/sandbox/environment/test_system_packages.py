from __future__ import annotations

import pytest

from sandbox.environment.system_packages import COMPILER, find_system_packages

WRAPPED = {"build-system": {"build-backend": "ours.hooks", "backend-path": ["packaging"]}}


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
